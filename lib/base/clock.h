// The library's only clock: monotonic, in nanoseconds.
#pragma once

#include <chrono>
#include <cstdint>

namespace wherry::impl {

inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

// now_ns(), or a clock that a test or a replay sets.
using Clock = std::uint64_t (*)();

}  // namespace wherry::impl
