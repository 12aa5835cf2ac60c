// `wherry bench prefetch`: what prefetching costs and saves, compared with a plain copy and with
// the faults that it replaces.
#pragma once

#include <cstdint>

namespace wherry::tool {

inline constexpr std::uint64_t prefetch_bytes_min = std::uint64_t{16} << 20;
inline constexpr std::uint64_t prefetch_bytes_max = std::uint64_t{1} << 40;

struct PrefetchBenchOptions {
  std::uint64_t bytes = std::uint64_t{256} << 20;
  int device = 0;
  bool json = false;
};

// Prints to stdout, or one line to stderr on failure. Returns the exit code. Throws wherry::error,
// std::bad_alloc.
int run_bench_prefetch(const PrefetchBenchOptions& options);

}  // namespace wherry::tool
