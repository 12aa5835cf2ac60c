// A lock for what threads hold for long, such as a block's state during a copy of 2 MiB.
//
// A thread that unlocks a std::mutex and locks it again at once comes before the threads that
// sleep, because Linux takes 10 to 60 us to wake one of them. So a fault handler could wait for
// 30 s, until the faulting thread got a signal (docs/decisions/moving-pages.md). Here a thread that
// has waited for 2 ms is overdue: as long as there are such threads, only they get the lock.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/lock.h"

namespace wherry::impl {

class FairLock {
 public:
  void lock() {
    if (!try_lock()) wait_and_lock();
  }
  // May also fail if the lock is free and another thread begins to wait at this moment.
  // Async-signal-safe.
  bool try_lock() {
    std::uint32_t seen = state_.load(std::memory_order_relaxed);
    return (seen & locked) == 0 && overdue_.load(std::memory_order_relaxed) == 0 &&
           state_.compare_exchange_strong(seen, seen | locked, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void unlock() {
    // Sequentially consistent: wait_and_lock() says why.
    if (state_.fetch_and(~locked) != locked) wake_next();
  }

 private:
  static constexpr std::uint32_t locked = 1;
  static constexpr std::uint32_t one_waiter = 2;

  void wait_and_lock();
  void wake_next();

  std::atomic<std::uint32_t> state_{0};    // `locked`, and the number of waiters
  std::atomic<std::uint32_t> overdue_{0};  // how many of them are overdue
  std::atomic<std::uint32_t> turns_{0};    // changes when an overdue waiter shall look again
};

// A mutex with its lock order in its type, where it takes no memory: there are very many of these.
template <LockOrder order>
using FairMutexOf = BasicMutex<FixedOrder<order>, FairLock>;

}  // namespace wherry::impl
