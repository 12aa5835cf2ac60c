// Which block is accessed when: the patterns that replacement is judged by. The same seed gives the
// same trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace wherry::tool {

using AccessTrace = std::vector<std::uint32_t>;

// 0, 1, ... blocks - 1, and again.
AccessTrace sweep_trace(std::uint32_t blocks, std::size_t rounds);
// Every block as likely as any other.
AccessTrace random_trace(std::uint32_t blocks, std::size_t accesses, std::uint64_t seed);
// The n-th most popular block is accessed in proportion to n^-exponent; which those are is drawn,
// too.
AccessTrace zipf_trace(std::uint32_t blocks, std::size_t accesses, double exponent,
                       std::uint64_t seed);

}  // namespace wherry::tool
