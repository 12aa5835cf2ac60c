// Makes traces of block accesses, on which replacement policies are compared. The same seed gives
// the same trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace wherry::tool {

using AccessTrace = std::vector<std::uint32_t>;

// The blocks 0, 1, ... blocks - 1, `rounds` times.
AccessTrace sweep_trace(std::uint32_t blocks, std::size_t rounds);
// Random blocks, all equally likely.
AccessTrace random_trace(std::uint32_t blocks, std::size_t accesses, std::uint64_t seed);
// The n-th most popular block is accessed in proportion to n^-exponent. The ranks of the blocks are
// random.
AccessTrace zipf_trace(std::uint32_t blocks, std::size_t accesses, double exponent,
                       std::uint64_t seed);

}  // namespace wherry::tool
