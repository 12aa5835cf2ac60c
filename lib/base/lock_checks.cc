#include "base/lock_checks.h"

#if defined(WHERRY_CHECKS)

#include <atomic>
#include <cstdint>

#include "base/check.h"

namespace wherry::impl {
namespace {

constexpr unsigned held_max = 32;

struct Record {
  unsigned held;
  // The lock's order plus one. 0 means that the thread has claimed the place and has not filled it
  // yet; a signal handler that interrupts the thread at that point uses the places above.
  std::uint8_t orders[held_max];
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Record record{};

void fence() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace

void check_lock(LockOrder order) {
  const Record& mine = record;
  for (unsigned i = 0; i < mine.held; ++i) {
    if (mine.orders[i] == 0) continue;
    const auto held = static_cast<LockOrder>(mine.orders[i] - 1);
    if (held == order)
      WHERRY_FAIL("a thread takes a second lock '{}' while it holds one", name_of(order));
    if (held > order)
      WHERRY_FAIL(
          "a thread takes the lock '{}' while it holds '{}', which comes later in the lock order",
          name_of(order), name_of(held));
  }
}

void note_locked(LockOrder order) {
  Record& mine = record;
  if (mine.held == held_max) WHERRY_FAIL("a thread holds {} locks", held_max);
  const unsigned place = mine.held;
  mine.held = place + 1;
  fence();
  mine.orders[place] = static_cast<std::uint8_t>(static_cast<unsigned>(order) + 1);
}

void note_unlocked(LockOrder order) {
  Record& mine = record;
  const auto wanted = static_cast<std::uint8_t>(static_cast<unsigned>(order) + 1);
  unsigned place = mine.held;
  while (place != 0 && mine.orders[place - 1] != wanted) --place;
  if (place == 0)
    WHERRY_FAIL("a thread releases the lock '{}', which it does not hold", name_of(order));
  for (; place < mine.held; ++place) mine.orders[place - 1] = mine.orders[place];
  mine.orders[place - 1] = 0;
  fence();
  mine.held = place - 1;
}

void check_wait_without(LockOrder released) {
  const Record& mine = record;
  bool skipped = false;
  for (unsigned i = 0; i < mine.held; ++i) {
    if (mine.orders[i] == 0) continue;
    const auto held = static_cast<LockOrder>(mine.orders[i] - 1);
    if (held == released && !skipped) {
      skipped = true;
      continue;
    }
    if (!may_wait_under(held))
      WHERRY_FAIL("a thread waits with the lock '{}' while it holds '{}'", name_of(released),
                  name_of(held));
  }
}

void check_wait() {
  const Record& mine = record;
  for (unsigned i = 0; i < mine.held; ++i) {
    if (mine.orders[i] == 0) continue;
    const auto held = static_cast<LockOrder>(mine.orders[i] - 1);
    if (!may_wait_under(held)) WHERRY_FAIL("a thread waits while it holds '{}'", name_of(held));
  }
}

bool holds_lock_of_fault_path() {
  const Record& mine = record;
  for (unsigned i = 0; i < mine.held; ++i)
    if (mine.orders[i] != 0 && is_of_fault_path(static_cast<LockOrder>(mine.orders[i] - 1)))
      return true;
  return false;
}

void check_lock_to_write(LockOrder order) {
  const Record& mine = record;
  for (unsigned i = 0; i < mine.held; ++i) {
    if (mine.orders[i] == 0) continue;
    const auto held = static_cast<LockOrder>(mine.orders[i] - 1);
    if (is_of_fault_path(held))
      WHERRY_FAIL("a thread locks '{}' to write while it holds '{}', which faults may need",
                  name_of(order), name_of(held));
  }
}

void forget_noted_locks() {
  record = {};
}

}  // namespace wherry::impl

#endif
