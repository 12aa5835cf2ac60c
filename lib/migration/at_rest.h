// For threads that need pages as they are, not on their way.
#pragma once

#include <chrono>
#include <thread>

#include "base/check.h"
#include "pages/block.h"

namespace wherry::impl {

// Locks the block at a moment when nothing of the run is in flight. A flight ends by itself, after as long as Linux takes
// to copy a few MiB. Not for threads that answer faults.
class WHERRY_TSA(scoped_lockable) RestGuard {
 public:
  RestGuard(Block& block, PageRun run) WHERRY_TSA(acquire_capability(block.lock))
      WHERRY_TSA(no_thread_safety_analysis)
      : block_(block) {
    for (int i = 0; i < pauses_max; ++i) {
      block_.lock.lock();
      if ((PageMask::of(run) & block_.in_flight()).none()) return;
      block_.lock.unlock();
      std::this_thread::sleep_for(pause);
    }
    check_failed(__FILE__, __LINE__, "a flight never landed");
  }
  ~RestGuard() WHERRY_TSA(release_capability()) { block_.lock.unlock(); }
  RestGuard(const RestGuard&) = delete;
  RestGuard& operator=(const RestGuard&) = delete;

 private:
  static constexpr std::chrono::microseconds pause{50};
  static constexpr int pauses_max = 1'000'000;  // a minute at least

  Block& block_;
};

}  // namespace wherry::impl
