// What threads wait for that hold a Mutex: std::condition_variable for base/lock.h. While a thread
// waits the mutex is unlocked and signals arrive as they would without it; nothing is locked in
// secret, so a signal handler that runs in a waiting thread may do what it could do elsewhere.
//
// Any thread. Waits may end for no reason: callers look again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/lock.h"

namespace wherry::impl {

class Condition {
 public:
  // Returns after a notification, or when `limit` is over.
  void wait_for(Mutex& mutex, std::chrono::nanoseconds limit) REQUIRES(mutex);
  // The same, for threads of the library that wait until there is something to do.
  void wait(Mutex& mutex) REQUIRES(mutex) { wait_for(mutex, look_again); }
  // Waits until done(), which is called with the mutex locked. False: not within `limit`.
  template <typename Done>
  [[nodiscard]] bool wait_for(Mutex& mutex, std::chrono::nanoseconds limit, const Done& done)
      REQUIRES(mutex)
          WHERRY_TSA(no_thread_safety_analysis) {  // which cannot tell that done() has it
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!done()) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= end) return false;
      wait_for(mutex, end - now);
    }
    return true;
  }

  void notify_one();
  void notify_all();

 private:
  static constexpr std::chrono::seconds look_again{60};

  std::atomic<std::uint32_t> changes_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace wherry::impl
