// `wherry top`: shows what a running program that uses Wherry does, without its help.
#pragma once

#include <sys/types.h>

#include <CLI/CLI.hpp>

namespace wherry::tool {

struct TopOptions {
  pid_t pid = 0;  // if 0, the only program of this user
  double seconds = 1;
  bool once = false;
  bool json = false;
};

// Adds the command. Parsing stores its options in `options`, which must outlive `app`.
CLI::App* add_top(CLI::App& app, TopOptions& options);

// Returns the exit code. Throws std::bad_alloc.
int run_top(const TopOptions& options);

}  // namespace wherry::tool
