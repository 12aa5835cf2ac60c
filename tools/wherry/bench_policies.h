// `wherry bench policies`: workloads under each policy, each in a process of its own, beside the
// best policy of each, and that one beside an oracle (bench_oracle.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wherry::tool {

struct PolicyBenchOptions {
  std::vector<std::string> policies;   // empty: all built-in ones
  std::vector<std::string> workloads;  // likewise
  int rounds = 3;
  std::uint64_t seed = 1;
  bool json = false;
};

// Devices are WHERRY_DEVICES', or two of 32 MiB. Prints to stdout; one line to stderr on failure.
// Returns the exit code. Throws std::bad_alloc. Requires: the library has not been started.
int run_bench_policies(const PolicyBenchOptions& options);

}  // namespace wherry::tool
