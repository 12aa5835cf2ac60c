// `wherry bench`: what the library makes of typical loads on this machine, as tables or JSON. Each
// benchmark is a subcommand with options of its own.
#pragma once

#include <CLI/CLI.hpp>

#include "bench_numa.h"
#include "bench_policies.h"
#include "bench_prefetch.h"
#include "oversubscribe.h"

namespace wherry::tool {

struct BenchOptions {
  PrefetchBenchOptions prefetch;
  OversubscribeOptions oversubscribe;
  PolicyBenchOptions policies;
  NumaBenchOptions numa;
  // The subcommands; the first one otherwise.
  const CLI::App* oversubscribes = nullptr;
  const CLI::App* compares_policies = nullptr;
  const CLI::App* compares_nodes = nullptr;
};

// Adds the command with its subcommands; `options` receives what they are given, and outlives
// `app`.
CLI::App* add_bench(CLI::App& app, BenchOptions& options);

// Runs the subcommand that was parsed; there is one. Returns the exit code. Throws wherry::error,
// std::bad_alloc.
int run_bench(const BenchOptions& options);

}  // namespace wherry::tool
