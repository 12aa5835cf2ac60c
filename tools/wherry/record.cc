#include "record.h"

#include <cstdio>
#include <optional>

#include "complain.h"
#include "output.h"
#include "program_trace.h"
#include "started_program.h"
#include "temporary_folder.h"
#include "trace/trace_name.h"
#include "trace_file.h"
#include "trace_summary.h"

namespace wherry::tool {
namespace {

constexpr const char* usual_file = "wherry.trace";

// Prints to stderr, so that the program's own output stays as it is. Returns an exit code.
int print_summary(const std::string& file) {
  const auto loaded = load_trace(file);
  if (const auto* wrong = std::get_if<std::string>(&loaded)) return complain(*wrong);
  Output output(stderr);
  write_summary(std::get<Trace>(loaded), output);
  return output.end();
}

}  // namespace

CLI::App* add_record(CLI::App& app, RecordOptions& options) {
  CLI::App* record = app.add_subcommand("record", "Run a program and write a trace of its events");
  record
      ->add_option(
          "-o,--output", options.file,
          "The trace; an older one is replaced; %p: the program's process id, %r: its MPI rank")
      ->type_name("FILE")
      ->default_str(usual_file);
  record->add_flag("--summary", options.summary,
                   "Print what wherry trace reports, to stderr; without -o keep no trace");
  record->add_option("program", options.program, "-- PROGRAM ARGS...")->type_name("")->required();
  return record;
}

int run_record(const RecordOptions& options) {
  std::optional<TemporaryFolder> folder;
  std::string file = options.file.empty() ? usual_file : options.file;
  if (options.summary && options.file.empty()) {
    folder.emplace("wherry-record");
    file = impl::trace_pattern_of((folder->path() / usual_file).string());
  }
  const auto trace = ProgramTrace::begin(file, options.program[0]);
  if (!trace) return exit_usage;
  StartedProgram program(options.program);
  if (program.process() < 0) return program.complain_of_start();
  const StartedProgram::End end = program.wait();
  const int code = trace->report(program.process(), end, /*kept=*/!folder);
  if (!options.summary) return code;
  const auto written = trace->written_by(program.process());
  const int printed = written ? print_summary(*written) : exit_ok;
  return code == exit_ok ? printed : code;
}

}  // namespace wherry::tool
