// `wherry calibrate`: measures the costs of faults on this machine, for `wherry replay`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace wherry::tool {

struct CalibrateOptions {
  std::string file;  // if empty, this user's default file
  bool json = false;
};

// Adds the command. Parsing stores its options in `options`, which must outlive `app`.
CLI::App* add_calibrate(CLI::App& app, CalibrateOptions& options);

// Returns the exit code. Throws std::bad_alloc.
int run_calibrate(const CalibrateOptions& options);

}  // namespace wherry::tool
