// The conditions of one test run, which main() prints and the environment can repeat:
// WHERRY_TEST_SEED (default: drawn at random) and WHERRY_TEST_SCALE (default 1; the sanitizer runs
// use 0.1).
#pragma once

#include <cstdint>

namespace wherry::test {

// Seeds every random generator of the run; the same value on each call.
std::uint64_t seed();

// Sanitizers need descriptors to look at objects, and map memory of their own wherever they like.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif
#else
inline constexpr bool is_sanitized = false;
#endif

// What to multiply the length of a stress or a random walk by.
double scale();

// `count` times scale(), at least 1.
std::uint64_t scaled(std::uint64_t count);

}  // namespace wherry::test
