#include "trace.h"

#include <array>
#include <utility>

#include "complain.h"
#include "output.h"
#include "trace_chrome.h"
#include "trace_file.h"
#include "trace_summary.h"
#include "trace_table.h"

namespace wherry::tool {
namespace {

using Report = void (*)(const Trace&, Output&);
constexpr std::array<std::pair<const char*, Report>, 4> formats{{{"summary", write_summary},
                                                                 {"chrome", write_chrome},
                                                                 {"csv", write_csv},
                                                                 {"json", write_json}}};

}  // namespace

CLI::App* add_trace(CLI::App& app, TraceOptions& options) {
  CLI::App* trace = app.add_subcommand("trace", "Report on a trace, as wherry record writes it");
  trace->add_option("file", options.file, "The trace")->type_name("FILE")->required();
  std::vector<std::string> names;
  for (const auto& [name, report] : formats) names.emplace_back(name);
  trace
      ->add_option("--format", options.format,
                   "summary: tables; chrome: for Perfetto and chrome://tracing; csv; json")
      ->type_name("NAME")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  return trace;
}

int run_trace(const TraceOptions& options) {
  const auto loaded = load_trace(options.file);
  if (const auto* wrong = std::get_if<std::string>(&loaded)) return complain(*wrong);
  Output output;
  for (const auto& [name, report] : formats)
    if (options.format == name) report(std::get<Trace>(loaded), output);
  return output.end();
}

}  // namespace wherry::tool
