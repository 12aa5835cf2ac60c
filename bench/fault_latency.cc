// How long does the first touch of a page by the host take, compared with a bare userfaultfd loop
// with the same handlers?
#include <fmt/core.h>
#include <wherry/cuda.h>

#include <cstdlib>

#include "measure/bare_populate.h"
#include "measure/managed.h"
#include "measure/touches.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int runs = 7;
constexpr std::size_t faults_per_run = 4096;

struct Quantiles {
  std::vector<double> p50, p90, p99;

  void add(const std::vector<double>& latencies) {
    p50.push_back(percentile(latencies, 0.50));
    p90.push_back(percentile(latencies, 0.90));
    p99.push_back(percentile(latencies, 0.99));
  }
};

Measurements measure(std::size_t region, const char* region_name) {
  move_single_regions(region);
  ::setenv("WHERRY_DEVICES", "capacity=64M", 1);
  allowed_cpus();
  init_cuda();
  const std::size_t bytes = faults_per_run * region;
  const BarePopulate bare{bytes, region};
  pin_to_allowed_cpu(0);

  Quantiles ours, baseline;
  for (int run = -1; run < runs; ++run) {  // the first run warms up
    std::byte* const memory = alloc_managed(bytes);
    const std::vector<double> of_ours = timed_touches(memory, faults_per_run, region);
    free_managed(memory);
    const std::vector<double> of_bare = timed_touches(bare.memory(), faults_per_run, region);
    bare.clear();
    if (run < 0) continue;
    ours.add(of_ours);
    baseline.add(of_bare);
  }

  Measurements results;
  const auto add = [&](const char* quantile, const std::vector<double>& a,
                       const std::vector<double>& b, std::optional<double> goal) {
    const double ours_us = median(a) / 1e3;
    const double bare_us = median(b) / 1e3;
    results.push_back(
        {fmt::format("{} first touch, {}", region_name, quantile), ours_us, "us", {}, {}});
    results.push_back(
        {fmt::format("{} bare loop, {}", region_name, quantile), bare_us, "us", {}, {}});
    results.push_back(
        {fmt::format("{} ratio, {}", region_name, quantile), ours_us / bare_us, "x", goal, {}});
  };
  add("p50", ours.p50, baseline.p50, 1.25);
  add("p90", ours.p90, baseline.p90, 1.25);
  add("p99", ours.p99, baseline.p99, {});
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all = measure_in_child([] { return measure(4096, "4K"); });
  for (Measurement& next : measure_in_child([] { return measure(65536, "64K"); })) {
    all.push_back(std::move(next));
  }
  return print_report("fault_latency: first touch of managed memory by the host", all, json);
}
