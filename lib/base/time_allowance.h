// Limits a thread to a share of a CPU's time in the long run.
#pragma once

#include <algorithm>
#include <cstdint>

namespace wherry::impl {

// The CPU time that a thread may still use, given its fixed share.
class TimeAllowance {
 public:
  // `per_mille` is the share, in thousandths of one CPU. `most_ns` is the CPU time that the thread
  // may use at once after a long rest.
  TimeAllowance(std::uint64_t per_mille, std::uint64_t most_ns)
      : per_mille_(per_mille), most_ns_(static_cast<std::int64_t>(most_ns)), left_ns_(most_ns_) {}

  // Call at time `now_ns`, when the thread has used another `used_ns` of CPU time. Returns from
  // when on it may use more, on the clock of `now_ns`.
  std::uint64_t use(std::uint64_t used_ns, std::uint64_t now_ns) {
    if (seen_ns_ != 0) {
      const std::uint64_t passed =
          std::min(now_ns - seen_ns_, 1000 * static_cast<std::uint64_t>(most_ns_) / per_mille_);
      left_ns_ =
          std::min(most_ns_, left_ns_ + static_cast<std::int64_t>(passed * per_mille_ / 1000));
    }
    seen_ns_ = now_ns;
    left_ns_ -= static_cast<std::int64_t>(used_ns);
    if (left_ns_ >= 0) return now_ns;
    return now_ns + static_cast<std::uint64_t>(-left_ns_) * 1000 / per_mille_;
  }

 private:
  const std::uint64_t per_mille_;
  const std::int64_t most_ns_;
  std::int64_t left_ns_;
  std::uint64_t seen_ns_ = 0;  // 0: use() was not called
};

}  // namespace wherry::impl
