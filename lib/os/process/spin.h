// A short busy wait, for what usually comes sooner than Linux wakes a sleeping thread. Threads that
// wait for the CPU get it, and if one of them computes, the busy wait ends early.
//
//   for (Spin spin(limit_ns); !is_there(); )
//     if (!spin.goes_on()) { sleep until it is there; break; }
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace wherry::impl {

// The limit for another thread's answer, about the time that Linux takes for a sleep and a wake.
inline constexpr std::uint64_t usual_spin_ns = 50'000;

class Spin {
 public:
  explicit Spin(std::uint64_t limit_ns) : looked_ns_(now_ns()), end_ns_(looked_ns_ + limit_ns) {}

  // Yields the CPU. Returns false if the limit is over or another thread computes on this CPU.
  // Async-signal-safe.
  bool goes_on();

 private:
  std::uint64_t looked_ns_;
  std::uint64_t end_ns_;
};

}  // namespace wherry::impl
