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

// Waits for the program, says where the trace is, and returns the program's exit code as shells do:
// 128 + the signal that ended it, 127 where there is no such program, 126 where it cannot be run.
// Two codes are our own: exit_usage where no trace can be written, and the program is not run;
// exit_failed where the program ended with 0 and a part of the trace is lost. SIGTERM, SIGINT,
// SIGHUP and SIGQUIT that are sent to this process are passed on to the program.
int run_record(const RecordOptions& options);

}  // namespace wherry::tool
