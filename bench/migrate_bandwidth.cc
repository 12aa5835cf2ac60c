// How fast do faults move pages between the host and a device, compared with the bare sequence of
// Linux's calls?
#include <fmt/core.h>

#include "measure/migration.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int runs = 10;
constexpr std::size_t bytes = std::size_t{128} << 20;

double rate(const std::vector<double>& times_ns) {
  return bytes / median(times_ns);
}

Measurements measure(std::size_t region, const char* name) {
  const MigrationTimes times = measure_migration({bytes, region, runs});
  Measurements results;
  const auto add = [&](const char* direction, const std::vector<double>& ours,
                       const std::vector<double>& bare) {
    results.push_back({fmt::format("{} {}", name, direction), rate(ours), "GB/s", {}, {}});
    if (bare.empty()) return;
    results.push_back(
        {fmt::format("{} {}, bare sequence", name, direction), rate(bare), "GB/s", {}, {}});
    results.push_back(
        {fmt::format("{} {}, ratio", name, direction), rate(ours) / rate(bare), "x", {}, 0.9});
  };
  add("host to device", times.to_device, times.bare_to_device);
  add("device to host", times.to_host, times.bare_to_host);
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all = measure_in_child([] { return measure(std::size_t{64} << 10, "64K"); });
  for (Measurement& next : measure_in_child([] { return measure(std::size_t{2} << 20, "2M"); })) {
    all.push_back(std::move(next));
  }
  return print_report("migrate_bandwidth: pages moved by faults", all, json);
}
