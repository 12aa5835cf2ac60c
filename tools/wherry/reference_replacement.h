// What well-known replacements make of a trace, to be shown beside the library's: each sees every
// access, which the library does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "access_trace.h"

namespace wherry::tool {

// Hits from access number `first` on, of a memory of `capacity` > 0 blocks that is empty before the
// trace.

// Evicts the block that was not accessed for the longest time.
std::size_t hits_of_lru(std::span<const std::uint32_t> trace, std::size_t capacity,
                        std::size_t first);
// Evicts any block.
std::size_t hits_of_random(std::span<const std::uint32_t> trace, std::size_t capacity,
                           std::size_t first, std::uint64_t seed);
// Evicts the block that will not be accessed for the longest time: no replacement has more hits.
std::size_t hits_of_optimum(std::span<const std::uint32_t> trace, std::size_t capacity,
                            std::size_t first);

}  // namespace wherry::tool
