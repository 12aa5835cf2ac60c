// `wherry bench all`: measures the answers to the questions of bench_questions.h, and in the same
// run what Linux or the hardware permits and what a program would use without the library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wherry::tool {

inline constexpr std::uint64_t all_bytes_min = std::uint64_t{16} << 20;
inline constexpr std::uint64_t all_bytes_max = std::uint64_t{64} << 30;

struct AllBenchOptions {
  std::vector<std::string> only;  // keys or names of groups; if empty, all
  std::uint64_t bytes = 0;        // of large memory; 0: chosen by the available memory
  bool json = false;
};

// Prints to stdout, progress to stderr if it is a terminal, and one line to stderr for each group
// that could not be measured. Returns the exit code. Throws std::system_error, std::bad_alloc.
// Requires: the library has not been started.
int run_bench_all(const AllBenchOptions& options);

}  // namespace wherry::tool
