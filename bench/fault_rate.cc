// How many faults per second does the library handle for 1, 2 and 4 threads of the host, and how
// much memory does its page state take?
#include <fmt/core.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "measure/bare_populate.h"
#include "measure/managed.h"
#include "measure/touches.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int runs = 7;
constexpr std::size_t page = 4096;
constexpr std::size_t pages_per_run = 32768;

// Faults per second of threads that start together; each writes to every page of its own part.
double fault_rate(std::byte* memory, int threads) {
  return pages_per_run / (touch_by_threads(memory, pages_per_run * page, page, threads) / 1e9);
}

Measurements measure_rates() {
  move_single_regions(page);
  ::setenv("WHERRY_DEVICES", "capacity=64M", 1);
  init_cuda();
  const BarePopulate bare{pages_per_run * page, page};
  Measurements results;
  for (const int threads : {1, 2, 4}) {
    std::vector<double> ours, baseline;
    for (int run = -1; run < runs; ++run) {  // the first run warms up
      std::byte* const memory = alloc_managed(pages_per_run * page);
      const double of_ours = fault_rate(memory, threads);
      free_managed(memory);
      const double of_bare = fault_rate(bare.memory(), threads);
      bare.clear();
      if (run < 0) continue;
      ours.push_back(of_ours);
      baseline.push_back(of_bare);
    }
    results.push_back({fmt::format("faults, {} thread(s)", threads), median(ours), "1/s", {}, {}});
    results.push_back(
        {fmt::format("faults, {} thread(s), bare loop", threads), median(baseline), "1/s", {}, {}});
    results.push_back({fmt::format("faults, {} thread(s), ratio", threads),
                       median(ours) / median(baseline),
                       "x",
                       {},
                       {}});
  }
  return results;
}

// Bytes of this process's private memory. The pools are shared files, so their pages are not
// included.
double anonymous_bytes() {
  std::ifstream file{"/proc/self/smaps_rollup"};
  for (std::string word; file >> word;) {
    double kilobytes = 0;
    if (word == "Anonymous:" && file >> kilobytes) return kilobytes * 1024;
  }
  fail("no Anonymous: line in /proc/self/smaps_rollup");
}

Measurements measure_metadata() {
  constexpr std::size_t bytes = std::size_t{4} << 30;
  constexpr std::size_t block = std::size_t{2} << 20;
  ::unsetenv("WHERRY_FAULT_REGION");
  ::setenv("WHERRY_DEVICES", "capacity=64M;capacity=64M", 1);
  init_cuda();
  const double idle = anonymous_bytes();
  // One touch of each block (2 MiB) creates its metadata, which has the same size however many
  // pages exist.
  std::byte* const memory = alloc_managed(bytes);
  timed_touch(memory, bytes, block);
  const double used = anonymous_bytes();
  free_managed(memory);
  return {{"metadata per managed byte", (used - idle) / bytes * 100, "%", 0.1, {}}};
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all = measure_in_child(measure_rates);
  for (Measurement& next : measure_in_child(measure_metadata)) all.push_back(std::move(next));
  return print_report(
      "fault_rate: first touches by several host threads, and the size of the page state", all,
      json);
}
