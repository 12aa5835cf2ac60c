// For threads that need pages as they are, not on their way.
#pragma once

#include <chrono>
#include <thread>

#include "base/check.h"
#include "base/lock.h"
#include "pages/block.h"

namespace wherry::impl {

// Waits for what ends by itself, after as long as Linux takes to copy a few MiB. Not for threads that answer faults.
template <typename Predicate>
void wait_for_rest(const Predicate& is_at_rest, const char* otherwise) {
  constexpr std::chrono::microseconds pause{50};
  constexpr int pauses_max = 1'000'000;  // a minute at least
  check_wait();
  for (int i = 0; i < pauses_max; ++i) {
    if (is_at_rest()) return;
    std::this_thread::sleep_for(pause);
  }
  WHERRY_FAIL("{}", otherwise);
}

// Locks the block at a moment when nothing of the run is in flight. Not for threads that answer faults.
class WHERRY_TSA(scoped_lockable) RestGuard {
 public:
  RestGuard(Block& block, PageRun run) WHERRY_TSA(acquire_capability(block.lock))
      WHERRY_TSA(no_thread_safety_analysis)
      : block_(block) {
    wait_for_rest(
        [&]() WHERRY_TSA(no_thread_safety_analysis) {
          block_.lock.lock();
          if ((PageMask::of(run) & block_.in_flight()).none()) return true;
          block_.lock.unlock();
          return false;
        },
        "a flight never landed");
  }
  ~RestGuard() WHERRY_TSA(release_capability()) { block_.lock.unlock(); }
  RestGuard(const RestGuard&) = delete;
  RestGuard& operator=(const RestGuard&) = delete;

 private:
  Block& block_;
};

}  // namespace wherry::impl
