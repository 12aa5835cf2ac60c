// Settings of a test run. main() prints them, and the environment can repeat them: WHERRY_TEST_SEED
// (default: random) and WHERRY_TEST_SCALE (default 1; the short runs of tools/test use 0.05).
#pragma once

#include <cstdint>

namespace wherry::test {

// Seeds every random generator of the run; the same value on each call.
std::uint64_t seed();

// Sanitizers need descriptors to examine objects, and map memory at addresses of their choice.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif
#else
inline constexpr bool is_sanitized = false;
#endif

// The factor for the length of stress tests and random walks.
double scale();

// `count` times scale(), at least 1.
std::uint64_t scaled(std::uint64_t count);

}  // namespace wherry::test
