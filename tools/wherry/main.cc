// The command line of `wherry`.
#include <CLI/CLI.hpp>
#include <cmath>
#include <new>
#include <sstream>
#include <string>
#include <wherry/wherry.hpp>

#include "base/environment.h"
#include "bench.h"
#include "calibrate_command.h"
#include "cg.h"
#include "complain.h"
#include "import.h"
#include "info.h"
#include "nvcc/command.h"
#include "policies.h"
#include "progress.h"
#include "record.h"
#include "replay_command.h"
#include "report_command.h"
#include "run.h"
#include "top.h"
#include "trace.h"
#include "unknown_command.h"

namespace wherry::tool {
namespace {

CLI::App* add_cg(CLI::App& app, CgOptions& options) {
  CLI::App* cg = app.add_subcommand(
      "cg", "Solve A x = b by conjugate gradients in managed memory; b is all ones");
  CLI::Option* matrix = cg->add_option(
      "--matrix", options.matrix, "Matrix Market file: coordinate, real, general or symmetric");
  cg->add_option("--poisson", options.poisson, "2D Poisson problem on an N x N grid")
      ->type_name("N")
      ->check(CLI::Range(std::uint32_t{1}, poisson_max))
      ->excludes(matrix)
      ->capture_default_str();
  matrix->type_name("FILE");
  cg->add_option("--devices", options.devices, "How many devices multiply; all of them by default")
      ->type_name("D")
      ->check(CLI::Range(1, WHERRY_MAX_DEVICES));
  cg->add_option("--tolerance", options.tolerance, "Ends when |b - Ax| / |b| is at most this")
      ->type_name("T")
      ->check(CLI::Validator(
          [](std::string& text) {
            double value = 0;
            const bool good = CLI::detail::lexical_cast(text, value) && value > 0 && value < 1;
            return good ? std::string() : "must be between 0 and 1, not " + text;
          },
          ""))
      ->capture_default_str();
  cg->add_flag(
      "--advise", options.advise,
      "Advise that the matrix is read-mostly, and that the vectors of a product are preferred "
      "on the device that computes it");
  add_policy(*cg);
  cg->add_flag("--json", options.json, "Print one JSON object");
  return cg;
}

int run(int argc, char** argv) {
  CLI::App app("Wherry: unified memory for machines without a GPU", "wherry");
  app.set_version_flag("--version", WHERRY_VERSION);
  app.require_subcommand(1);
  bool info_json = false;
  CLI::App* info =
      app.add_subcommand("info", "Show what this machine offers and how the library starts on it");
  info->add_flag("--json", info_json, "Print one JSON object");
  bool policies_json = false;
  CLI::App* policies = app.add_subcommand(
      "policies", "List the policies that decide where pages go, with their parameters");
  policies->add_flag("--json", policies_json, "Print one JSON array");
  CgOptions cg_options;
  CLI::App* cg = add_cg(app, cg_options);
  BenchOptions bench_options;
  CLI::App* bench = add_bench(app, bench_options);
  RecordOptions record_options;
  CLI::App* record = add_record(app, record_options);
  TraceOptions trace_options;
  CLI::App* trace = add_trace(app, trace_options);
  ReportOptions report_options;
  CLI::App* report = add_report(app, report_options);
  RunOptions run_options;
  CLI::App* run = add_run(app, run_options);
  ImportOptions import_options;
  CLI::App* import_command = add_import(app, import_options);
  CalibrateOptions calibrate_options;
  CLI::App* calibrate = add_calibrate(app, calibrate_options);
  ReplayOptions replay_options;
  CLI::App* replay = add_replay(app, replay_options);
  TopOptions top_options;
  CLI::App* top = add_top(app, top_options);

  app.add_subcommand("nvcc", "Compile CUDA sources for Wherry's devices, with nvcc's options")
      ->prefix_command();
  // Not parsed by CLI11: nvcc's options have another form.
  if (argc > 1 && argv[1] == std::string("nvcc")) return run_nvcc({argv + 2, argv + argc});

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& stop) {
    if (stop.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      app.exit(stop, text);
      return print_out(text.str());
    }
    const std::string unknown = unknown_command(app, {argv + 1, argv + argc});
    complain(unknown.empty() ? stop.what() + std::string(" (try: wherry --help)") : unknown);
    return exit_usage;
  }
  // `wherry record` and `wherry run` leave these messages to the program that they run.
  if (!record->parsed() && !run->parsed()) impl::complain_about_environment();
  if (impl::environment("TERM") != "dumb") permit_progress();
  if (cg->parsed()) return run_cg(cg_options);
  if (bench->parsed()) return run_bench(bench_options);
  if (policies->parsed()) return run_policies(policies_json);
  if (record->parsed()) return run_record(record_options);
  if (trace->parsed()) return run_trace(trace_options);
  if (report->parsed()) return run_report(report_options);
  if (run->parsed()) return run_run(run_options);
  if (import_command->parsed()) return run_import(import_options);
  if (calibrate->parsed()) return run_calibrate(calibrate_options);
  if (replay->parsed()) return run_replay(replay_options);
  if (top->parsed()) return run_top(top_options);
  return run_info(info_json);
}

}  // namespace
}  // namespace wherry::tool

int main(int argc, char** argv) {
  try {
    return wherry::tool::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return wherry::tool::complain("not enough memory");
  } catch (const std::exception& failure) {
    return wherry::tool::complain(failure.what());
  }
}
