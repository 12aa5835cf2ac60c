// A condition variable for Mutex (base/lock.h), like std::condition_variable. While a thread waits,
// the mutex is unlocked and signals arrive as they would without it. No internal lock exists, so a
// signal handler that runs in a waiting thread may do what it may do elsewhere.
//
// Any thread. Wake-ups may be spurious: callers check their condition again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/lock.h"

namespace wherry::impl {

class Condition {
 public:
  // Returns after a notification, after `limit`, or spuriously.
  void wait_for(Mutex& mutex, std::chrono::nanoseconds limit) REQUIRES(mutex);
  // Waits at most 60 s. For threads of the library that wait for work.
  void wait(Mutex& mutex) REQUIRES(mutex) { wait_for(mutex, look_again); }
  // Waits until done(), which is called with the mutex locked. Returns false if that takes longer
  // than `limit`.
  template <typename Done>
  [[nodiscard]] bool wait_for(Mutex& mutex, std::chrono::nanoseconds limit, const Done& done)
      REQUIRES(mutex)
      // the analysis cannot see that done() runs under the mutex
      WHERRY_TSA(no_thread_safety_analysis) {
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
