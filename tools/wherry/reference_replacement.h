// Hit rates of well-known replacement policies, to be compared with the library's. These policies
// see every access; the library does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "access_trace.h"

namespace wherry::tool {

// Each returns the number of hits from access `first` on, in a memory of `capacity` > 0 blocks that
// is empty at the start.

// Evicts the least recently used block.
std::size_t hits_of_lru(std::span<const std::uint32_t> trace, std::size_t capacity,
                        std::size_t first);
// Evicts a random block.
std::size_t hits_of_random(std::span<const std::uint32_t> trace, std::size_t capacity,
                           std::size_t first, std::uint64_t seed);
// Evicts the block whose next access is the furthest in the future (Belady): no policy has more
// hits.
std::size_t hits_of_optimum(std::span<const std::uint32_t> trace, std::size_t capacity,
                            std::size_t first);

}  // namespace wherry::tool
