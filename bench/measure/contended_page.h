// Measures two processors that write the same memory all the time.
#pragma once

#include <cstddef>

namespace wherry::bench {

// Bytes of the memory: 16 pages.
inline constexpr std::size_t contended_bytes = std::size_t{64} << 10;

struct Contention {
  std::size_t distance;  // bytes between the two words that are written
  bool in_turn;          // each writes only after the other one
};

struct ContentionResult {
  double writes_per_s;
  double poorer_share;         // of the processor with fewer writes
  double regions_moved_per_s;  // each has contended_bytes
};

// `memory`: contended_bytes of managed memory. `first` and `second` are device ordinals; `first`
// may also be -1, the host. Takes a third of a second. Tries up to 20 times if neither has written
// anything. The writers are pinned to the first two CPUs.
ContentionResult contend(std::byte* memory, const Contention& contention, int first, int second);

}  // namespace wherry::bench
