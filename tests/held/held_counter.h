// How often the library has found that pages which were to move are held.
#pragma once

#include <cstdint>

#include "support/session.h"

namespace wherry::test {

template <typename Stats>
concept CountsHeld = requires(const Stats& stats) {
  stats.held;
};

// 0 with a library that does not count them.
template <typename Stats>
std::uint64_t held_of(const Stats& stats) {
  if constexpr (CountsHeld<Stats>)
    return stats.held;
  else
    return 0;
}
inline constexpr bool library_counts_held = CountsHeld<wherryStats>;

inline std::uint64_t held_count() {
  return held_of(read_stats());
}

}  // namespace wherry::test
