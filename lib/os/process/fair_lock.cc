#include "os/process/fair_lock.h"

#include <chrono>

#include "base/clock.h"
#include "os/process/futex.h"

namespace wherry::impl {
namespace {

constexpr std::uint64_t overdue_after_ns = 2'000'000;
constexpr int look_again_ms = 1000;

}  // namespace

// A waiter that is about to sleep has stored what it is (a waiter, an overdue one), and then looks
// at the state. A thread that unlocks changes the state, and then looks for waiters. In the one
// order of these sequentially consistent operations at least one of the two sees the other: the
// waiter does not sleep, or is woken.
void FairLock::wait_and_lock() {
  const std::uint64_t begun_ns = now_ns();
  bool is_overdue = false;
  state_.fetch_add(one_waiter);
  for (;;) {
    const std::uint32_t turn = turns_.load();
    std::uint32_t seen = state_.load();
    const bool is_free = (seen & locked) == 0 && (is_overdue || overdue_.load() == 0);
    if (is_free) {
      if (state_.compare_exchange_weak(seen, (seen | locked) - one_waiter)) break;
      continue;
    }
    if (is_overdue) {
      futex_wait(turns_, turn, look_again_ms);
      continue;
    }
    const std::uint64_t waited_ns = now_ns() - begun_ns;
    if (waited_ns < overdue_after_ns) {
      futex_wait_ns(state_, seen, std::chrono::nanoseconds(overdue_after_ns - waited_ns));
      continue;
    }
    is_overdue = true;
    overdue_.fetch_add(1);
  }
  if (is_overdue) overdue_.fetch_sub(1);
}

void FairLock::wake_next() {
  if (overdue_.load() == 0) {
    futex_wake(state_, 1);
    return;
  }
  turns_.fetch_add(1);
  futex_wake(turns_, 1);
}

}  // namespace wherry::impl
