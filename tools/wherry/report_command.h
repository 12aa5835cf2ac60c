// `wherry report`: makes a page about a trace, for a browser.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace wherry::tool {

struct ReportOptions {
  std::string trace;
  std::string page = "report.html";
};

// Adds the command. Parsing stores its options in `options`, which must outlive `app`.
CLI::App* add_report(CLI::App& app, ReportOptions& options);

// Returns the exit code. Throws std::bad_alloc.
int run_report(const ReportOptions& options);

}  // namespace wherry::tool
