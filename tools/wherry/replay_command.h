// `wherry replay`: predicts what a recorded program would do under other policies, or with devices
// of another capacity.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace wherry::tool {

struct ReplayOptions {
  std::string file;
  std::vector<std::string> policies;  // each a list of policies; if empty, all built-in ones
  std::uint64_t capacity = 0;         // bytes of each device; if 0, as recorded
  std::string cost_file;              // if empty, this user's default file
  bool json = false;
};

// Adds the command. Parsing stores its options in `options`, which must outlive `app`.
CLI::App* add_replay(CLI::App& app, ReplayOptions& options);

// Returns the exit code. Throws std::bad_alloc.
int run_replay(const ReplayOptions& options);

}  // namespace wherry::tool
