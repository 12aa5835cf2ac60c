#include "import/damon_accesses.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "import/time_text.h"

namespace wherry::importing {
namespace {

using tool::fail;
using tool::LineReader;
using tool::quote;
using tool::take_word;

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 7> units{
    {{"ns", 1},
     {"us", 1000},
     {"ms", 1'000'000},
     {"s", 1'000'000'000},
     {"m", 60'000'000'000},
     {"h", 3'600'000'000'000},
     {"d", 86'400'000'000'000}}};

// "8 m 59.809 s", "1,234 us", or nanoseconds without a unit.
std::optional<std::uint64_t> damon_time_of(std::string_view text) {
  std::string without_commas(text);
  std::erase(without_commas, ',');
  std::string_view rest = without_commas;
  std::uint64_t sum_ns = 0;
  do {
    const std::string_view number = take_word(rest);
    std::string_view unit = take_word(rest);
    if (unit.empty()) unit = "ns";
    const auto found = std::ranges::find(units, unit, [](const auto& row) { return row.first; });
    if (found == units.end()) return std::nullopt;
    const auto part_ns = decimal_ns(number, found->second);
    if (!part_ns || *part_ns > time_max_ns - sum_ns) return std::nullopt;
    sum_ns += *part_ns;
  } while (!tool::is_blank(rest));
  return sum_ns;
}

class DamonReader {
 public:
  DamonReader(std::FILE* stream, const SourceSettings& settings)
      : lines_(stream), settings_(settings) {}

  Accesses read() {
    while (const auto line = lines_.next()) {
      const std::string_view text = tool::trimmed(*line);
      if (text.empty() || text.starts_with('#')) continue;
      const std::size_t colon = text.find(':');
      if (!take(text.substr(0, std::min(colon, text.size())),
                text.substr(std::min(colon, text.size() - 1) + 1)))
        take_region(text);
    }
    end_snapshot();
    return std::move(accesses_);
  }

 private:
  // Returns false if the line is no value of a known name.
  bool take(std::string_view name, std::string_view value) {
    if (name == "base_time_absolute") {
      end_snapshot();
      begin_ns_ = end_ns_ = 0;
      base_ns_ = time(value);
    } else if (name == "monitoring_start") {
      end_snapshot();
      begin_ns_ = base_ns_ + time(value);
      end_ns_ = begin_ns_;
    } else if (name == "monitoring_end") {
      end_ns_ = std::max(begin_ns_, base_ns_ + time(value));
      accesses_.end_ns = std::max(accesses_.end_ns, end_ns_);
      is_timed_ = true;
    } else if (name == "target_id") {
      target_ = number_of(tool::trimmed(value));
    } else {
      return name == "monitoring_duration" || name == "nr_regions" || name == "data source" ||
             name == "intervals";
    }
    return true;
  }

  std::uint64_t time(std::string_view text) const {
    const auto time_ns = damon_time_of(text);
    if (!time_ns) fail(lines_.number(), fmt::format("{} is no time", quote(tool::trimmed(text))));
    return *time_ns;
  }

  // "START-END (SIZE) ACCESSES AGE"; older: "START-END(SIZE): ACCESSES".
  void take_region(std::string_view line) {
    const std::size_t dash = line.find('-');
    const std::size_t opens = line.find('('), closes = line.find(')');
    if (dash == std::string_view::npos || opens == std::string_view::npos ||
        closes == std::string_view::npos || dash > opens || opens > closes)
      fail(lines_.number(),
           fmt::format("{} is no line of damo report access --raw_form", quote(line)));
    const auto begin = tool::to_integer(tool::trimmed(line.substr(0, dash)), 16);
    const auto end = tool::to_integer(tool::trimmed(line.substr(dash + 1, opens - dash - 1)), 16);
    if (!begin || !end || *begin >= *end) fail(lines_.number(), "its addresses are no region");
    std::string_view rest = line.substr(closes + 1);
    if (rest.starts_with(':')) rest.remove_prefix(1);
    const std::string_view count = take_word(rest);
    const bool is_unknown = count == "-1";  // of a snapshot that damo has added
    const auto accesses = is_unknown ? 0 : tool::to_integer(count);
    if (!accesses) fail(lines_.number(), fmt::format("{} is no number of accesses", quote(count)));
    if (!is_timed_) fail(lines_.number(), "a region before monitoring_start and monitoring_end");
    if (*accesses != 0) add(*begin, *end);
  }

  void add(std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t page = settings_.page_bytes;
    const std::uint64_t first = begin / page, last = (end - 1) / page;
    // Takes page numbers that are multiples of the stride, so that two snapshots with different
    // regions have the same pages.
    const std::uint64_t stride = std::bit_ceil((last - first) / damon_pages_max + 1);
    const std::uint64_t multiple = (first + stride - 1) / stride * stride;
    for (std::uint64_t i = multiple > last ? first : multiple; i <= last; i += stride) {
      Access access = page_access(i * page, settings_);
      access.space = access.thread = target_;
      access.name = target_;
      accesses_.all.push_back(access);
    }
  }

  // Spreads the snapshot's accesses over its time.
  void end_snapshot() {
    const std::uint64_t count = accesses_.all.size() - first_;
    for (std::uint64_t i = 0; i < count; ++i)
      accesses_.all[first_ + i].time_ns =
          begin_ns_ +
          static_cast<std::uint64_t>(static_cast<double>(end_ns_ - begin_ns_) *
                                     static_cast<double>(i) / static_cast<double>(count));
    first_ = accesses_.all.size();
    is_timed_ = false;
  }

  std::uint32_t number_of(std::string_view id) {
    auto& names = accesses_.names;
    const auto found = std::ranges::find(names, id);
    const auto number = static_cast<std::uint32_t>(found - names.begin());
    if (found == names.end()) names.emplace_back(id);
    return number;
  }

  LineReader lines_;
  const SourceSettings& settings_;
  Accesses accesses_;
  std::uint64_t base_ns_ = 0;  // where the record's times begin
  // The snapshot's time.
  std::uint64_t begin_ns_ = 0;
  std::uint64_t end_ns_ = 0;
  bool is_timed_ = false;
  std::uint32_t target_ = 0;
  std::size_t first_ = 0;  // its first access
};

}  // namespace

SourceResult read_damon_accesses(std::FILE* stream, const SourceSettings& settings) {
  return unless_malformed([&] { return DamonReader(stream, settings).read(); });
}

}  // namespace wherry::importing
