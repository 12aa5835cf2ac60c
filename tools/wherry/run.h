// `wherry run`: runs a program that knows nothing of Wherry with its large allocations in managed
// memory.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace wherry::tool {

struct RunOptions {
  std::string devices;  // as WHERRY_DEVICES; if empty, the tool chooses
  std::string policy;   // as WHERRY_POLICY; if empty, not changed
  std::uint64_t min_size = std::uint64_t{1} << 20;
  std::vector<std::string> attach;  // rules, see lib/run/attachment.h
  double sample = 0;                // percent of the program's time; 0: not changed
  std::string record;               // the trace file, if any
  std::string report;               // the file for the summary as JSON, if any
  bool quiet = false;
  std::vector<std::string> program;  // with its arguments
};

// Adds the command. Parsing stores its options in `options`, which must outlive `app`.
CLI::App* add_run(CLI::App& app, RunOptions& options);

// Waits for the program, and returns its exit code as run_record() does. Returns exit_usage if an
// option is wrong; then the program was not run.
int run_run(const RunOptions& options);

}  // namespace wherry::tool
