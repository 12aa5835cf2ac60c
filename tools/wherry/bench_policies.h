// `wherry bench policies`: runs workloads under each policy, each run in its own process. Compares
// each policy with the best one, and the best one with an oracle (bench_oracle.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench_figures.h"

namespace wherry::tool {

struct PolicyBenchOptions {
  std::vector<std::string> policies;   // if empty, all built-in ones
  std::vector<std::string> workloads;  // if empty, all
  int rounds = 3;
  std::uint64_t seed = 1;
  std::string traces;  // a folder for a trace of each workload, if not empty
  std::string svg;     // the file for a plot, if not empty
  bool json = false;
};

// The devices are those of WHERRY_DEVICES, or two of 32 MiB. Prints to stdout, or one line to
// stderr on failure. Returns the exit code. Throws std::bad_alloc. Requires: the library has not
// been started.
int run_bench_policies(const PolicyBenchOptions& options);

// For `wherry bench all`: the geometric mean of the times of each built-in policy, in the order of
// impl::built_in_policies(), relative to the best policy of each workload. Throws std::exception.
// Changes the environment. Requires: the library has not been started.
void measure_policies(const BenchScale& scale, std::span<Figures> figures);

}  // namespace wherry::tool
