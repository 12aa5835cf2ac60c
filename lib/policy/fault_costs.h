// What faults have cost on this machine lately, for policies that weigh what they do: running means
// of some sixteen, in which one that had to wait long counts for little. Added to and read by any
// thread; an addition that another one overtakes is lost, which does no harm.
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
    const std::uint64_t counted =
        std::clamp(value, share, outlier * old);  // it can always grow again
    mean_.store(old - old / share + counted / share, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t share = 16;
  static constexpr std::uint64_t outlier = 4;

  std::atomic<std::uint64_t> mean_;
};

struct FaultCosts {
  // Until something has been measured: of a common machine.
  RunningMean fault_ns{
      20'000};  // from the message to the wake, without what the pages themselves took
  RunningMean page_ns{1'000};  // a page that comes with others
};

}  // namespace wherry::impl
