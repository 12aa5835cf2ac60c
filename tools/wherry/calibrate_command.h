// `wherry calibrate`: measures what faults cost on this machine, for `wherry replay`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace wherry::tool {

struct CalibrateOptions {
  std::string file;  // empty: this machine's
  bool json = false;
};

// Adds the command; `options` receives what it is given, and outlives `app`.
CLI::App* add_calibrate(CLI::App& app, CalibrateOptions& options);

// Returns the exit code. Throws std::bad_alloc.
int run_calibrate(const CalibrateOptions& options);

}  // namespace wherry::tool
