// `wherry record`: runs a program with a trace of the library's events.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace wherry::tool {

struct RecordOptions {
  std::string file;  // a pattern, see trace/trace_name.h; empty if none was given
  bool summary = false;
  std::vector<std::string> program;  // with its arguments
};

// Adds the command. Parsing stores its options in `options`, which must outlive `app`.
CLI::App* add_record(CLI::App& app, RecordOptions& options);

// Waits for the program, reports where the trace is, or prints its summary to stderr and, if no
// file was given, removes it. Returns the program's exit code in the form of shells: 128 + the
// number of the signal that ended it, 127 if there is no such program, 126 if it cannot be run. Two
// codes are the command's own: exit_usage if no trace can be written (then the program is not run),
// and exit_failed if the program ended with 0 but a part of the trace is lost, or the summary
// cannot be printed. SIGTERM, SIGINT, SIGHUP and SIGQUIT sent to this process are passed on to the
// program.
int run_record(const RecordOptions& options);

}  // namespace wherry::tool
