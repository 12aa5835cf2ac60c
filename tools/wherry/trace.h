// `wherry trace`: what a trace says, for a person or for other programs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace wherry::tool {

struct TraceOptions {
  std::string file;
  std::string format = "summary";
};

// Adds the command; `options` receives what it is given, and outlives `app`.
CLI::App* add_trace(CLI::App& app, TraceOptions& options);

// Returns the exit code. Throws std::bad_alloc.
int run_trace(const TraceOptions& options);

}  // namespace wherry::tool
