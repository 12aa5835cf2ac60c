#include "trace/marks.h"

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/lock.h"
#include "os/process/thread.h"
#include "trace/recorder.h"

namespace wherry::impl {
namespace {

struct Range {
  const char* text = nullptr;  // nullptr: marks were not recorded when it began
  std::uint64_t begun_ns = 0;
};

struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

class Marks {
 public:
  const char* keep(std::string_view text) EXCLUDES(lock_) {
    text = text.substr(0, mark_bytes_max);
    const LockGuard guard(lock_);
    const auto known = texts_.find(text);
    if (known != texts_.end()) return known->c_str();
    if (texts_.size() == mark_texts_max) return "(one of too many texts)";
    return texts_.emplace(text).first->c_str();
  }
  std::uint64_t start(Range range) EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    ranges_.emplace(++last_, range);
    return last_;
  }
  std::optional<Range> end(std::uint64_t number) EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    const auto ended = ranges_.extract(number);
    return ended ? std::optional(ended.mapped()) : std::nullopt;
  }

 private:
  Mutex lock_{LockOrder::marks};
  // Texts are never removed: recorded events refer to them.
  std::unordered_set<std::string, TextHash, std::equal_to<>> texts_ GUARDED_BY(lock_);
  std::unordered_map<std::uint64_t, Range> ranges_ GUARDED_BY(lock_);
  std::uint64_t last_ GUARDED_BY(lock_) = 0;
};

// Never destroyed: threads may mark something while the process ends.
Marks& marks() {
  static auto* const all = new Marks;
  return *all;
}

std::vector<Range>& ranges_of_this_thread() {
  thread_local std::vector<Range> ranges;
  return ranges;
}

Range begin(std::string_view text) {
  if (!is_recorded(EventKind::mark)) return {};
  const char* const kept = marks().keep(text);
  return {kept, now_ns()};
}

void record(const Range& range, std::uint64_t end_ns) {
  if (range.text == nullptr || !is_recorded(EventKind::mark)) return;
  record_event({.time_ns = range.begun_ns,
                .duration_ns = end_ns - range.begun_ns,
                .address = reinterpret_cast<std::uintptr_t>(range.text),
                .thread = this_thread_id(),
                .kind = EventKind::mark});
}

}  // namespace

void mark_moment(std::string_view text) {
  const Range moment = begin(text);
  record(moment, moment.begun_ns);
}

std::size_t push_marked_range(std::string_view text) {
  auto& ranges = ranges_of_this_thread();
  ranges.push_back(begin(text));
  return ranges.size() - 1;
}

std::optional<std::size_t> pop_marked_range() {
  auto& ranges = ranges_of_this_thread();
  if (ranges.empty()) return std::nullopt;
  record(ranges.back(), now_ns());
  ranges.pop_back();
  return ranges.size();
}

std::uint64_t start_marked_range(std::string_view text) {
  return marks().start(begin(text));
}

bool end_marked_range(std::uint64_t number) {
  const auto range = marks().end(number);
  if (range) record(*range, now_ns());
  return range.has_value();
}

}  // namespace wherry::impl
