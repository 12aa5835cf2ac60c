// Measured costs of recent faults on this machine, for policies that weigh the cost of a move. Each
// is a running mean over about 16 values. Outliers, such as a fault that had to wait long, are
// clamped. Any thread may add and read; a concurrent addition may be lost, which is harmless.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace wherry::impl {

class RunningMean {
 public:
  explicit RunningMean(std::uint64_t start) : mean_(start) {}

  std::uint64_t get() const { return mean_.load(std::memory_order_relaxed); }
  void add(std::uint64_t value) {
    const std::uint64_t old = get();
    // At least `share`, so that the mean never becomes too small to grow again.
    const std::uint64_t counted = std::clamp(value, share, outlier * old);
    mean_.store(old - old / share + counted / share, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t share = 16;
  static constexpr std::uint64_t outlier = 4;

  std::atomic<std::uint64_t> mean_;
};

struct FaultCosts {
  // From the userfaultfd message to the wake, without the time for the pages themselves. The
  // initial values of both means are those of a common machine.
  RunningMean fault_ns{20'000};
  // The time for one page that is transferred together with others.
  RunningMean page_ns{1'000};
};

}  // namespace wherry::impl
