#include "faults/temporary_pins.h"

#include <new>

#include "base/clock.h"
#include "trace/recorder.h"

namespace wherry::impl {
namespace {

// After a pin has ended, the daemon looks this often, and at this interval, whether every
// processor's view of the pages is its own pool again.
constexpr int end_tries_max = 100;
constexpr std::uint64_t end_pause_ns = 10'000'000;

}  // namespace

bool TemporaryPins::push(const TemporaryPin& pin) {
  try {
    temporary_pins_.push(pin);
  } catch (const std::bad_alloc&) {
    return false;
  }
  next_end_.store(temporary_pins_.top().until_ns, std::memory_order_relaxed);
  return true;
}

std::optional<std::uint64_t> TemporaryPins::wake_time() {
  const std::uint64_t end = next_end_.load(std::memory_order_relaxed);
  std::uint64_t wake = next_wake_.load();
  while (end < wake)
    if (next_wake_.compare_exchange_weak(wake, end)) return end;
  return std::nullopt;
}

void TemporaryPins::woke(std::optional<std::uint64_t> time) {
  // If another thread has set an earlier time since, that one stays.
  if (time) next_wake_.compare_exchange_strong(*time, never);
}

std::optional<TemporaryPins::TemporaryPin> TemporaryPins::pop_due(std::uint64_t now) {
  if (next_end_.load(std::memory_order_relaxed) > now) return std::nullopt;
  const LockGuard guard(lock_);
  if (temporary_pins_.empty() || temporary_pins_.top().until_ns > now) return std::nullopt;
  const TemporaryPin pin = temporary_pins_.top();
  temporary_pins_.pop();
  next_end_.store(temporary_pins_.empty() ? never : temporary_pins_.top().until_ns,
                  std::memory_order_relaxed);
  return pin;
}

bool TemporaryPins::add(const TemporaryPin& pin) {
  const LockGuard guard(lock_);
  return push(pin);
}

// If there is no memory for the entry, the pages stay mapped remotely until something changes that.
void TemporaryPins::hold(BlockIndex block, PageRun run, std::uint64_t until_ns) {
  (void)add({until_ns, block, run});
}

bool TemporaryPins::begin(BlockIndex block, PageRun run, Processor at, std::uint64_t until_ns) {
  if (until_ns != 0 && !add({until_ns, block, run})) return false;
  count(engine_.at(at).counters.thrash_pinned, run.count);
  record(EventKind::pin, block, run, at);
  return true;
}

void TemporaryPins::end_due(std::uint64_t now) {
  while (auto pin = pop_due(now)) {
    const LockedBlock block(pin->block, blocks_.at(pin->block));
    PageMask pages = PageMask::of(pin->run);
    if (pin->tries == 0 && block.state.history) pages |= end(block, now);
    // The view switcher changes views later, and a change may fail: the pin is looked at again.
    if (effects_.end_temporary_pin(block, pages) || ++pin->tries > end_tries_max) continue;
    pin->until_ns = now + end_pause_ns;
    const LockGuard again(lock_);
    // If there is no memory to look again, some processor may see the pages in another pool for
    // longer, which costs only time.
    (void)push(*pin);
  }
}

PageMask TemporaryPins::end(const LockedBlock& block, std::uint64_t now) {
  const PageMask over = policy_.end_temporary_pins(now, *block.state.history);
  for (int i = 0; i < engine_.processors(); ++i) {
    const PageMask ended = over & block.state.at(Processor{i}).resident;
    count(engine_.at(Processor{i}).counters.thrash_unpinned, ended.count());
    for (const PageRun run : runs_of(ended))
      record(EventKind::unpin, block.index, run, Processor{i});
  }
  return over;
}

void TemporaryPins::record(EventKind kind, BlockIndex block, PageRun run, Processor at) const {
  if (!is_recorded(kind)) return;
  const PageSpan span = span_of(block, run);
  if (const auto address = engine_.recorder().address_of(span.first))
    record_event({.time_ns = clock_(),
                  .address = *address,
                  .bytes = span.bytes(),
                  .kind = kind,
                  .cause = MoveCause::thrash_pin,
                  .destination = index_of(at)});
}

}  // namespace wherry::impl
