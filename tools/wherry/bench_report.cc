#include "bench_report.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "complain.h"
#include "kept_file.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;

double gigabytes_per_second(const BenchRow& row) {
  return row.seconds == 0 ? 0 : static_cast<double>(row.bytes) / row.seconds / 1e9;
}

// Blanks if the value is 0.
std::string cell(double value, const char* unit, int width, int digits) {
  if (value == 0) return std::string(static_cast<std::size_t>(width), ' ');
  return fmt::format("{:>{}}", fmt::format("{:.{}f} {}", value, digits, unit), width);
}

}  // namespace

std::string describe_machine() {
  utsname name{};
  ::uname(&name);
  return fmt::format("{} {}, {} CPUs", name.sysname, name.release,
                     std::thread::hardware_concurrency());
}

bool save_plot(const Plot& plot, const std::string& file) {
  if (file.empty()) return true;
  const std::string wrong = save_kept(to_svg(plot), file);
  if (!wrong.empty()) (void)complain(wrong);
  return wrong.empty();
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::lround(part * last))];
}

std::string as_text(const BenchReport& report) {
  std::string text =
      fmt::format("{}\n{}\n\n{:<44}{:>12}{:>12}{:>12}{:>12}{:>8}  {}\n", report.title,
                  report.machine, "", "time", "bandwidth", "p50", "p99", "ratio", "to");
  for (const BenchRow& row : report.rows) {
    text +=
        fmt::format("{:<44}{}{}{}{}{}  {}\n", row.name, cell(row.seconds * 1e3, "ms", 12, 2),
                    cell(gigabytes_per_second(row), "GB/s", 12, 2), cell(row.p50_us, "us", 12, 1),
                    cell(row.p99_us, "us", 12, 1),
                    row.against.empty() ? std::string(8, ' ') : fmt::format("{:>8.2f}", row.ratio),
                    row.against);
  }
  return text;
}

std::string as_json(const BenchReport& report) {
  Json json{{"title", report.title}, {"machine", report.machine}, {"rows", Json::array()}};
  for (const BenchRow& row : report.rows) {
    Json one{{"key", row.key}, {"name", row.name}};
    if (row.seconds != 0) one["seconds"] = row.seconds;
    if (row.bytes != 0) {
      one["bytes"] = row.bytes;
      one["gigabytes_per_second"] = gigabytes_per_second(row);
    }
    if (row.p50_us != 0) one["p50_us"] = row.p50_us;
    if (row.p99_us != 0) one["p99_us"] = row.p99_us;
    if (!row.against.empty()) {
      one["ratio"] = row.ratio;
      one["against"] = row.against;
    }
    json["rows"].push_back(std::move(one));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace wherry::tool
