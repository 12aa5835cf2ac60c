// `wherry trace`: reports on a trace, for people or for other programs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace wherry::tool {

struct TraceOptions {
  std::string file;
  std::string format = "summary";
};

// Adds the command. Parsing stores its options in `options`, which must outlive `app`.
CLI::App* add_trace(CLI::App& app, TraceOptions& options);

// Returns the exit code. Throws std::bad_alloc.
int run_trace(const TraceOptions& options);

}  // namespace wherry::tool
