// `wherry bench numa`: how long it takes to move pages between each pair of NUMA nodes by a fault,
// by a prefetch, and by move_pages(2), beside the distances that Linux reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace wherry::tool {

inline constexpr std::uint64_t numa_bytes_min = std::uint64_t{2} << 20;
inline constexpr std::uint64_t numa_bytes_max = std::uint64_t{16} << 30;

struct NumaBenchOptions {
  std::optional<int> from;  // if nullopt, each node with memory
  std::optional<int> to;
  std::uint64_t bytes = std::uint64_t{64} << 20;
  std::string page = "4K";           // 4K or 2M
  std::vector<std::string> methods;  // fault, prefetch, move_pages; if empty, all
  std::string svg;                   // the file for a plot, if not empty
  bool json = false;
};

// Prints to stdout, or one line to stderr on failure. Returns the exit code. Throws
// std::system_error, std::bad_alloc. Requires: the library has not been started.
int run_bench_numa(const NumaBenchOptions& options);

// The seconds that move_pages(2) takes to move this memory, in huge pages, from one node to
// another: the median of several runs. bytes: a multiple of 2 MiB. Throws std::system_error,
// std::bad_alloc.
double move_pages_seconds(int from, int to, std::uint64_t bytes);

}  // namespace wherry::tool
