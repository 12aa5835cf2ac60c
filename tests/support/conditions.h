// Settings of a test run, which the environment can repeat: WHERRY_TEST_SEED (default: random) and
// WHERRY_TEST_SCALE (default 1; the short runs of tools/test use 0.05), which main() prints, and
// WHERRY_TEST_RUN (the number of the run, default: random), which one_of() prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace wherry::test {

// Seeds every random generator of the run; the same value on each call.
std::uint64_t seed();

// For tests that AddressSanitizer disturbs: it opens descriptors, and maps memory where it likes.
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

// At full length returns all numbers from 0 to count - 1, else one of them, and in the next run the
// next one. Prints the choice like some_of() in support/length.py; `what` is the things' name.
std::vector<std::size_t> one_of(std::size_t count, const std::string& what);

}  // namespace wherry::test
