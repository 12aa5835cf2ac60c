#include "report_command.h"

#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <variant>

#include "complain.h"
#include "kept_file.h"
#include "report/page.h"
#include "report/report_json.h"
#include "report/trace_report.h"
#include "trace_file.h"

namespace wherry::tool {
namespace {

using report::TraceReport;

// Why the page cannot be made, as far as that is known before the trace is read; else empty.
std::string why_not(const ReportOptions& options) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status trace = fs::status(options.trace, ignored);
  if (fs::exists(trace) && !fs::is_regular_file(trace) && !fs::is_directory(trace))
    return fmt::format("{}: it is no regular file, and a report reads the trace twice",
                       options.trace);
  if (options.page.empty()) return "the name of the page is empty: -o FILE";
  if (fs::equivalent(options.trace, options.page, ignored))
    return fmt::format("{} is the trace itself: name another file with -o FILE", options.page);
  return why_not_saved(options.page);
}

// What the page contains, in a few lines.
std::string outcome(const ReportOptions& options, const TraceReport& made) {
  std::string text =
      fmt::format("{}: {} events of {}{}\n", options.page, made.events, made.about.machine.program,
                  made.about.complete ? "" : ", of which the trace breaks off");
  for (const report::Finding& finding : made.findings)
    text += fmt::format("  {}\n", finding.observation);
  return text;
}

}  // namespace

CLI::App* add_report(CLI::App& app, ReportOptions& options) {
  CLI::App* command = app.add_subcommand(
      "report", "Make a page on a trace: where memory was when, what moved, and what to try");
  command->add_option("file", options.trace, "The trace, as wherry record writes it")
      ->type_name("FILE")
      ->required();
  command->add_option("-o,--output", options.page, "The page (HTML); an older one is replaced")
      ->type_name("FILE")
      ->capture_default_str();
  return command;
}

int run_report(const ReportOptions& options) {
  if (const std::string wrong = why_not(options); !wrong.empty()) return complain(wrong);
  try {
    const auto made = report::make_report([&] { return read_file(options.trace); });
    if (const auto* wrong = std::get_if<std::string>(&made))
      return complain(fmt::format("{}: {}", options.trace, *wrong));
    const TraceReport& trace = *std::get<std::unique_ptr<const TraceReport>>(made);
    const std::string page = report::page_with(report::to_json(trace));
    if (const std::string wrong = save_kept(page, options.page); !wrong.empty())
      return complain(wrong);
    return print_out(outcome(options, trace));
  } catch (const std::system_error& error) {
    return complain(error.what());
  }
}

}  // namespace wherry::tool
