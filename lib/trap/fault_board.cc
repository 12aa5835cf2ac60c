#include "trap/fault_board.h"

#include <cerrno>

#include "base/clock.h"
#include "os/futex.h"
#include "os/poll.h"
#include "os/process.h"
#include "os/thread.h"

namespace wherry::impl {
namespace {

constexpr std::uint64_t ms = 1'000'000;
// Longer than any fault is put off; then its thread gets the signal that it would get without us.
constexpr std::uint64_t answer_limit_ns = 30'000 * ms;
// A process that does not change its protection within this is stopped, or stuck: it is ended.
constexpr std::uint64_t change_limit_ns = 5'000 * ms;
constexpr int look_again_ms = 50;
// The other side mostly answers before a sleep and its wake would be over.
constexpr int yields_before_sleep = 20;

// The slot whose fault the calling thread attends to.
thread_local FaultSlot* attended = nullptr;

void set_state(FaultSlot& slot, FaultSlot::State state) {
  slot.state.store(state, std::memory_order_release);
  futex_wake(slot.state, 1);
}

// Until it is another than `state`, for a while.
std::uint32_t wait_while(const FaultSlot& slot, std::uint32_t state) {
  for (int i = 0; i < yields_before_sleep; ++i) {
    const std::uint32_t now = slot.state.load(std::memory_order_acquire);
    if (now != state) return now;
    yield_cpu();
  }
  futex_wait(slot.state, state, look_again_ms);
  return slot.state.load(std::memory_order_acquire);
}

void change(FaultSlot& slot) {
  slot.error = set_access(slot.change_start, slot.change_bytes, slot.access);
  set_state(slot, FaultSlot::done);
}

FaultSlot* claim_slot(FaultBoard& board, std::uint64_t deadline) {
  while (now_ns() < deadline) {
    for (FaultSlot& slot : board.slots) {
      std::uint32_t expected = FaultSlot::free;
      if (slot.state.compare_exchange_strong(expected, FaultSlot::filling,
                                             std::memory_order_acquire))
        return &slot;
    }
    yield_cpu();  // as many threads as there are slots wait for answers, which come
  }
  return nullptr;
}

}  // namespace

bool post_fault(FaultBoard& board, const Fd& bell, std::uintptr_t address, bool write) {
  const std::uint64_t deadline = now_ns() + answer_limit_ns;
  FaultSlot* slot = claim_slot(board, deadline);
  if (slot == nullptr) return false;
  slot->address = address;
  slot->thread = this_thread_id();
  slot->write = write;
  slot->state.store(FaultSlot::posted, std::memory_order_release);
  signal_eventfd(bell);
  for (std::uint32_t state = FaultSlot::posted;; state = wait_while(*slot, state)) {
    if (state == FaultSlot::asked) {
      change(*slot);
      state = FaultSlot::done;
    } else if (state == FaultSlot::answered) {
      const bool refused = slot->refused;
      slot->state.store(FaultSlot::free, std::memory_order_release);
      return !refused;
    }
    // The slot stays as it is: somebody may still write there.
    if (now_ns() > deadline) return false;
  }
}

void change_protection_for_host(FaultBoard& board) {
  for (;;) {
    const std::uint32_t seen = board.changes.state.load(std::memory_order_acquire);
    if (seen == FaultSlot::asked)
      change(board.changes);
    else
      futex_wait(board.changes.state, seen, look_again_ms);
  }
}

std::optional<FaultEvent> BoardSource::read_event() const {
  if (drain_eventfd(bell_) == 0) return std::nullopt;
  for (unsigned i = 0; i < FaultBoard::slots_max; ++i) {
    FaultSlot& slot = board_.slots[i];
    std::uint32_t expected = FaultSlot::posted;
    if (!slot.state.compare_exchange_strong(expected, FaultSlot::taken, std::memory_order_acquire))
      continue;
    FaultEvent event;
    event.address = slot.address;
    event.thread = slot.thread;
    event.write = slot.write;
    event.kind_known = false;
    event.slot = i;
    return event;
  }
  return std::nullopt;
}

void BoardSource::attend(const FaultEvent& event) const {
  attended = &board_.slots[event.slot];
}

void BoardSource::leave() const {
  attended = nullptr;
}

void BoardSource::answered(const FaultEvent& event, bool refused) const {
  FaultSlot& slot = board_.slots[event.slot];
  slot.refused = refused;
  set_state(slot, FaultSlot::answered);
}

int BoardProtector::protect(PageSpan span, Access access) {
  const bool waits_for_us =
      attended >= board_.slots && attended < board_.slots + FaultBoard::slots_max;
  if (waits_for_us) return ask(*attended, span, access);
  const LockGuard guard(lock_);
  return ask(board_.changes, span, access);
}

int BoardProtector::ask(FaultSlot& slot, PageSpan span, Access access) const {
  slot.change_start = base_ + span.offset();
  slot.change_bytes = span.bytes();
  slot.access = access;
  set_state(slot, FaultSlot::asked);
  const std::uint64_t deadline = now_ns() + change_limit_ns;
  while (wait_while(slot, FaultSlot::asked) != FaultSlot::done) {
    if (now_ns() > deadline) kill_process(process_);
    if (has_ended(process_, now_ns() > deadline ? look_again_ms : 0)) return ESRCH;
  }
  slot.state.store(FaultSlot::taken, std::memory_order_relaxed);
  return slot.error;
}

}  // namespace wherry::impl
