// `wherry record`: runs a program with a trace of what the library does in it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace wherry::tool {

struct RecordOptions {
  std::string file = "wherry.trace";
  std::vector<std::string> program;  // with its arguments
};

// Adds the command; `options` receives what it is given, and outlives `app`.
CLI::App* add_record(CLI::App& app, RecordOptions& options);

// Waits for the program, says where the trace is, and returns its exit code as shells do: 128 + the signal that ended it, 127
// where there is no such program, 126 where it cannot be run.
int run_record(const RecordOptions& options);

}  // namespace wherry::tool
