// `wherry bench policies`: runs workloads under each policy, each run in its own process. Compares
// each policy with the best one, and the best one with an oracle (bench_oracle.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wherry::tool {

struct PolicyBenchOptions {
  std::vector<std::string> policies;   // empty: all built-in ones
  std::vector<std::string> workloads;  // empty: all
  int rounds = 3;
  std::uint64_t seed = 1;
  bool json = false;
};

// The devices are those of WHERRY_DEVICES, or two of 32 MiB. Prints to stdout, or one line to
// stderr on failure. Returns the exit code. Throws std::bad_alloc. Requires: the library has not
// been started.
int run_bench_policies(const PolicyBenchOptions& options);

}  // namespace wherry::tool
