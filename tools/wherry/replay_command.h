// `wherry replay`: what a recorded program would do under other policies, or with devices of
// another size.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace wherry::tool {

struct ReplayOptions {
  std::string file;
  std::vector<std::string> policies;  // each a list; empty: all built-in ones
  std::uint64_t capacity = 0;         // bytes of each device; 0: as recorded
  std::string cost_file;              // empty: this machine's
  bool json = false;
};

// Adds the command; `options` receives what it is given, and outlives `app`.
CLI::App* add_replay(CLI::App& app, ReplayOptions& options);

// Returns the exit code. Throws std::bad_alloc.
int run_replay(const ReplayOptions& options);

}  // namespace wherry::tool
