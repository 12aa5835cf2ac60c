// How often accesses are sampled (faults/usage_sampler.h), and how many blocks at once. Both are
// high while samples show something new, and fall while they do not. Once they have fallen, the
// mark of a new phase of the program raises them again. A program that marks phases all the time
// thus returns to the high pace every few hundred milliseconds at most.
//
// Makes no system calls and takes no locks; one thread uses an object.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace wherry::impl {

class SamplePace {
 public:
  // `blocks_max`: how many blocks are sampled at once at the high pace. `stays_high`: the pace
  // never falls.
  explicit SamplePace(std::size_t blocks_max, bool stays_high = false)
      : blocks_max_(blocks_max), stays_high_(stays_high) {}

  // Call it before each round of samples. `surprises`: how many samples have shown something new so
  // far; `phases`: how many phases have been marked so far.
  void begin_round(std::uint64_t surprises, std::uint64_t phases) {
    const bool has_settled = pause_ms_ == pause_max_ms;
    const bool is_new =
        stays_high_ || surprises != surprises_ || (has_settled && phases != phases_);
    surprises_ = surprises;
    phases_ = phases;
    pause_ms_ = is_new ? pause_min_ms : std::min(pause_ms_ + pause_ms_ / 4, pause_max_ms);
  }
  // How many blocks to sample in this round.
  std::size_t blocks() const {
    return std::max(blocks_min, blocks_max_ * pause_min_ms / pause_ms_);
  }
  // The time from this round to the next one.
  int pause_ms() const { return static_cast<int>(pause_ms_); }

 private:
  static constexpr unsigned pause_min_ms = 4;
  static constexpr unsigned pause_max_ms = 100;
  static constexpr std::size_t blocks_min = 2;

  const std::size_t blocks_max_;
  const bool stays_high_;
  unsigned pause_ms_ = pause_min_ms;
  std::uint64_t surprises_ = 0;
  std::uint64_t phases_ = 0;
};

}  // namespace wherry::impl
