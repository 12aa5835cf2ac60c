#include "trace.h"

#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "complain.h"
#include "events/trace_reader.h"
#include "output.h"
#include "trace_chrome.h"
#include "trace_summary.h"
#include "trace_table.h"

namespace wherry::tool {
namespace {

using Report = void (*)(const impl::Trace&, Output&);
constexpr std::array<std::pair<const char*, Report>, 4> formats{{{"summary", write_summary},
                                                                 {"chrome", write_chrome},
                                                                 {"csv", write_csv},
                                                                 {"json", write_json}}};

// Returns 0 or an errno.
int read_file(const std::string& path, impl::TraceBytes& bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file) return errno;
  constexpr std::size_t piece = std::size_t{1} << 20;
  for (std::size_t done = 0;;) {
    bytes.resize(done + piece);
    const std::size_t got = std::fread(bytes.data() + done, 1, piece, file.get());
    bytes.resize(done += got);
    if (got < piece) return std::ferror(file.get()) != 0 ? errno : 0;
  }
}

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
  impl::TraceBytes bytes;
  if (const int error = read_file(options.file, bytes))
    return complain(fmt::format("{}: {}", options.file, std::strerror(error)));
  const auto result = impl::read_trace(bytes);
  if (const auto* error = std::get_if<impl::TraceError>(&result))
    return complain(fmt::format("{}: {}", options.file, error->message));
  Output output;
  for (const auto& [name, report] : formats)
    if (options.format == name) report(std::get<impl::Trace>(result), output);
  return output.end();
}

}  // namespace wherry::tool
