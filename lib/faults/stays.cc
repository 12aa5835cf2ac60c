#include "faults/stays.h"

#include <new>

#include "base/clock.h"
#include "events/recorder.h"

namespace wherry::impl {
namespace {

// How often, and how long apart, is looked whether a page that need not stay is seen at home by
// everybody.
constexpr int end_tries_max = 100;
constexpr std::uint64_t end_pause_ns = 10'000'000;

}  // namespace

void Stays::push(const Stay& stay) {
  stays_.push(stay);
  next_end_.store(stays_.top().until_ns, std::memory_order_relaxed);
}

std::optional<Stays::Stay> Stays::pop_due(std::uint64_t now) {
  if (next_end_.load(std::memory_order_relaxed) > now) return std::nullopt;
  const LockGuard guard(lock_);
  if (stays_.empty() || stays_.top().until_ns > now) return std::nullopt;
  const Stay stay = stays_.top();
  stays_.pop();
  next_end_.store(stays_.empty() ? ~std::uint64_t{0} : stays_.top().until_ns,
                  std::memory_order_relaxed);
  return stay;
}

bool Stays::begin(std::uint64_t number, PageRun run, Processor at, std::uint64_t until_ns) {
  if (until_ns != 0) {
    const LockGuard guard(lock_);
    try {
      push({until_ns, number, run});
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  count(engine_.at(at).counters.thrash_pinned, run.count);
  record(EventKind::pin, number, run, at);
  return true;
}

void Stays::end_due(std::uint64_t now) {
  while (auto stay = pop_due(now)) {
    Block& block = blocks_.at(stay->number);
    const LockGuard guard(block.lock);
    PageMask pages = PageMask::of(stay->run);
    if (stay->tries == 0 && block.history) pages |= end(stay->number, block, now);
    // A view is changed by others, later, and may fail: it is looked at again.
    if (effects_.end_stay(block, stay->number, pages) || ++stay->tries > end_tries_max) continue;
    stay->until_ns = now + end_pause_ns;
    const LockGuard again(lock_);
    push(*stay);  // where it was
  }
}

PageMask Stays::end(std::uint64_t number, Block& block, std::uint64_t now) {
  const PageMask over = policy_.end_stays(now, *block.history);
  for (int i = 0; i < engine_.processors(); ++i) {
    const PageMask ended = over & block.at(Processor{i}).resident;
    count(engine_.at(Processor{i}).counters.thrash_unpinned, ended.count());
    for (const PageRun run : runs_of(ended)) record(EventKind::unpin, number, run, Processor{i});
  }
  return over;
}

void Stays::record(EventKind kind, std::uint64_t number, PageRun run, Processor at) const {
  if (!is_recorded(kind)) return;
  const PageSpan span = span_of(number, run);
  if (const auto address = engine_.address_of(span.first))
    record_event({.time_ns = now_ns(),
                  .address = *address,
                  .bytes = span.bytes(),
                  .kind = kind,
                  .cause = MoveCause::thrash_pin,
                  .destination = index_of(at)});
}

}  // namespace wherry::impl
