#include "trap/fault_board.h"

#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/patience.h"
#include "os/process/futex.h"
#include "os/process/poll.h"
#include "os/process/process.h"
#include "os/process/spin.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

constexpr int look_again_ms = 50;
// How long a thread waits for its answer while no handler attends to its fault
// (FaultLimit::bounded): longer than a handler postpones a fault between two attempts. Then the
// thread gets the signal that it would get without the library.
constexpr std::uint64_t host_limit_ns = 30'000'000'000;
// A process that does not change its protection within this time is stopped, or hangs, and the host
// ends it.
constexpr std::uint64_t change_limit_ns = 5'000'000'000;
// How often a sleeping thread looks for a free slot by itself: the thread that was woken for it may
// have got another one, or have ended.
constexpr int look_for_slot_ms = 200;

// The store is sequentially consistent, which releases the slot's fields, too. answered() sets the
// state and then reads `given_up`; a thread that gives up sets `given_up` and then reads the state.
// One of the two must see what the other has done, or nobody frees the slot.
void set_state(FaultSlot& slot, FaultSlot::State state) {
  slot.state.store(state);
  futex_wake(slot.state, 1);
}

// Waits until the slot's state is not `state`, for a short time. Returns the state.
std::uint32_t wait_while(const FaultSlot& slot, std::uint32_t state) {
  Spin spin(usual_spin_ns);
  do {
    const std::uint32_t now = slot.state.load(std::memory_order_acquire);
    if (now != state) return now;
  } while (spin.goes_on());
  futex_wait(slot.state, state, look_again_ms);
  return slot.state.load(std::memory_order_acquire);
}

void change(FaultSlot& slot, const PageTable& page_table) {
  slot.error = change_view_access(slot.change_start, slot.change_bytes, slot.access, slot.entries,
                                  page_table);
  set_state(slot, FaultSlot::done);
}

FaultSlot* try_claim_slot(FaultBoard& board) {
  for (FaultSlot& slot : board.slots) {
    std::uint32_t expected = FaultSlot::free;
    if (!slot.state.compare_exchange_strong(expected, FaultSlot::filling,
                                            std::memory_order_acquire))
      continue;
    slot.given_up.store(false, std::memory_order_relaxed);
    return &slot;
  }
  return nullptr;
}

// Whether there are more free slots than the `ahead` threads that sleep before this one.
bool has_slot_beyond(const FaultBoard& board, std::uint32_t ahead) {
  std::uint32_t free = 0;
  for (const FaultSlot& slot : board.slots)
    free += slot.state.load(std::memory_order_relaxed) == FaultSlot::free ? 1 : 0;
  return free > ahead;
}

// If all slots are in use, sleeps until one becomes free. Each slot that becomes free wakes one
// thread: if thousands of threads looked for a slot by themselves, the handlers would hardly run.
// A thread leaves as many free slots as others sleep: else threads that fault again and again would
// take every slot before a woken thread runs.
FaultSlot* claim_slot(FaultBoard& board, FaultLimit limit) {
  const std::uint32_t asleep = board.sleepers.load();
  if (asleep == 0 || has_slot_beyond(board, asleep))
    if (FaultSlot* const slot = try_claim_slot(board)) return slot;
  Patience patience(host_limit_ns);
  for (std::uint32_t last_freed = board.freed.load();; patience.note_wait()) {
    const std::uint32_t ahead = board.sleepers.fetch_add(1);
    const std::uint32_t freed = board.freed.load();
    // A slot that becomes free after this look changes `freed`, which futex_wait() compares, or the
    // thread that frees it sees the sleeper.
    FaultSlot* slot = has_slot_beyond(board, ahead) ? try_claim_slot(board) : nullptr;
    if (slot == nullptr) {
      futex_wait(board.freed, freed, look_for_slot_ms);
      slot = try_claim_slot(board);
    }
    board.sleepers.fetch_sub(1);
    if (slot != nullptr) return slot;
    // Slots become free, so this thread gets its turn: its limit begins anew.
    if (std::exchange(last_freed, freed) != freed) patience = Patience(host_limit_ns);
    if (limit == FaultLimit::bounded && patience.is_over()) return nullptr;
  }
}

// Frees an answered slot. The thread does that, or the host if the thread has given up.
void take_answer(FaultBoard& board, FaultSlot& slot) {
  std::uint32_t expected = FaultSlot::answered;
  if (!slot.state.compare_exchange_strong(expected, FaultSlot::free)) return;
  board.freed.fetch_add(1);
  if (board.sleepers.load() != 0) futex_wake(board.freed, 1);
}

}  // namespace

bool post_fault(FaultBoard& board, const Fd& notifier, std::uintptr_t address, bool write,
                FaultLimit limit, const PageTable* page_table) {
  FaultSlot* const slot = claim_slot(board, limit);
  if (slot == nullptr) return false;
  slot->address = address;
  slot->thread = this_thread_id();
  slot->write = write;
  slot->state.store(FaultSlot::posted, std::memory_order_release);
  signal_eventfd(notifier);
  std::uint32_t state = FaultSlot::posted;
  std::uint32_t attentions = slot->attentions.load(std::memory_order_relaxed);
  Patience patience(host_limit_ns);
  for (; limit == FaultLimit::endless || !patience.is_over(); patience.note_wait()) {
    if (state == FaultSlot::asked && page_table != nullptr) {
      change(*slot, *page_table);
      state = FaultSlot::done;
    }
    state = wait_while(*slot, state);
    const std::uint32_t now = slot->attentions.load(std::memory_order_relaxed);
    if (std::exchange(attentions, now) != now) patience = Patience(host_limit_ns);
    if (state == FaultSlot::answered) {
      const bool refused = slot->refused;
      take_answer(board, *slot);
      return !refused;
    }
  }
  slot->given_up.store(true);
  take_answer(board, *slot);
  return false;
}

void change_protection_for_host(FaultBoard& board, const PageTable& page_table) {
  for (;;) {
    const std::uint32_t seen = board.changes.state.load(std::memory_order_acquire);
    if (seen == FaultSlot::asked)
      change(board.changes, page_table);
    else
      futex_wait(board.changes.state, seen, look_again_ms);
  }
}

std::optional<FaultMessage> BoardSource::read_message() const {
  if (drain_eventfd(notifier_) == 0) return std::nullopt;
  const unsigned first = next_.load(std::memory_order_relaxed);
  // One pass over the slots may find no fault, although there is one for each notification: another
  // handler takes a fault ahead of this one, and the fault that is left is posted in a slot behind.
  // The limit is for a device that notifies and posts nothing.
  constexpr unsigned looks_max = 64;
  for (unsigned turn = 0; turn < looks_max * FaultBoard::slots_max; ++turn) {
    const unsigned i = (first + turn) % FaultBoard::slots_max;
    FaultSlot& slot = board_.slots[i];
    std::uint32_t expected = FaultSlot::posted;
    if (!slot.state.compare_exchange_strong(expected, FaultSlot::taken, std::memory_order_acquire))
      continue;
    next_.store(i + 1, std::memory_order_relaxed);
    FaultMessage message;
    message.address = slot.address;
    message.thread = slot.thread;
    message.write = slot.write;
    message.kind_known = false;
    message.slot = i;
    return message;
  }
  return std::nullopt;
}

FaultSlot* BoardSource::attend(const FaultMessage& message) const {
  FaultSlot& slot = board_.slots[message.slot];
  slot.attentions.fetch_add(1, std::memory_order_relaxed);
  return &slot;
}

void BoardSource::answered(const FaultMessage& message, bool refused) const {
  FaultSlot& slot = board_.slots[message.slot];
  slot.refused = refused;
  set_state(slot, FaultSlot::answered);
  if (slot.given_up.load()) take_answer(board_, slot);
}

int BoardProtector::protect(PageSpan span, Access access, HugeEntries entries, FaultSlot* waiter) {
  // The waiting thread may be another processor's, or that of an earlier process of this device.
  const bool is_ours = waiter >= board_.slots && waiter < board_.slots + FaultBoard::slots_max;
  if (is_ours) return ask(*waiter, span, access, entries);
  const LockGuard guard(lock_);
  return ask(board_.changes, span, access, entries);
}

int BoardProtector::ask(FaultSlot& slot, PageSpan span, Access access, HugeEntries entries) {
  return layout_.for_each_address_range(span, [&](std::uintptr_t address, std::size_t bytes) {
    return ask(slot, address, bytes, access, entries);
  });
}

int BoardProtector::ask(FaultSlot& slot, std::uintptr_t address, std::size_t bytes, Access access,
                        HugeEntries entries) {
  // Without this check, each request to an ended process would wait once for an answer.
  if (has_ended_.load(std::memory_order_relaxed)) return ESRCH;
  slot.change_start = address;
  slot.change_bytes = bytes;
  slot.access = access;
  slot.entries = entries;
  set_state(slot, FaultSlot::asked);
  Patience patience(change_limit_ns);
  for (bool killed = false; wait_while(slot, FaultSlot::asked) != FaultSlot::done;) {
    patience.note_wait();
    if (patience.is_over() && !std::exchange(killed, true)) end_process_();
    if (!has_ended(process_)) continue;
    has_ended_.store(true, std::memory_order_relaxed);
    return ESRCH;
  }
  slot.state.store(FaultSlot::taken, std::memory_order_relaxed);
  const int error = std::atomic_ref(slot.error).load(std::memory_order_relaxed);
  const bool can_be_busy = entries == HugeEntries::entered;
  if (error == 0 || error == ENOMEM || (error == EBUSY && can_be_busy)) return error;
  // Linux returns no other error for pages of the arena: the device has overwritten its board.
  (void)end_process();
  return ESRCH;
}

bool BoardProtector::end_process() {
  log_error("device process {} does not change access to its memory: it is ended", pid_);
  end_process_();
  // Until it has ended, its threads may access the pages.
  (void)wait_for_end(process_, Patience(change_limit_ns, AtLimit::goes_on));
  return true;
}

}  // namespace wherry::impl
