#include "record.h"

#include "complain.h"
#include "program_trace.h"
#include "started_program.h"

namespace wherry::tool {

CLI::App* add_record(CLI::App& app, RecordOptions& options) {
  CLI::App* record = app.add_subcommand("record", "Run a program and write a trace of its events");
  record
      ->add_option(
          "-o,--output", options.file,
          "The trace; an older one is replaced; %p: the program's process id, %r: its MPI rank")
      ->type_name("FILE")
      ->capture_default_str();
  record->add_option("program", options.program, "-- PROGRAM ARGS...")->type_name("")->required();
  return record;
}

int run_record(const RecordOptions& options) {
  const auto trace = ProgramTrace::begin(options.file, options.program[0]);
  if (!trace) return exit_usage;
  StartedProgram program(options.program);
  if (program.process() < 0) return program.complain_of_start();
  const StartedProgram::End end = program.wait();
  return trace->report(program.process(), end);
}

}  // namespace wherry::tool
