// `wherry bench`: measures typical loads on this machine, and prints tables or JSON. Each benchmark
// is a subcommand with its own options.
#pragma once

#include <CLI/CLI.hpp>

#include "bench_all.h"
#include "bench_numa.h"
#include "bench_policies.h"
#include "bench_prefetch.h"
#include "bench_programs.h"
#include "oversubscribe.h"

namespace wherry::tool {

struct BenchOptions {
  AllBenchOptions all;
  PrefetchBenchOptions prefetch;
  OversubscribeOptions oversubscribe;
  PolicyBenchOptions policies;
  NumaBenchOptions numa;
  ProgramBenchOptions programs;
  // The subcommands. run_bench() runs the first of them that was parsed, else prefetch.
  const CLI::App* answers_all = nullptr;
  const CLI::App* oversubscribes = nullptr;
  const CLI::App* compares_policies = nullptr;
  const CLI::App* compares_nodes = nullptr;
  const CLI::App* runs_programs = nullptr;
};

// Adds the command with its subcommands. Parsing stores their options in `options`, which must
// outlive `app`.
CLI::App* add_bench(CLI::App& app, BenchOptions& options);

// Runs the subcommand that was parsed. Returns the exit code. Throws wherry::error, std::bad_alloc.
int run_bench(const BenchOptions& options);

}  // namespace wherry::tool
