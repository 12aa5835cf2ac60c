// How many writes per second do two processors reach that write the same memory all the time: one
// page, or different pages that one fault moves together? And how evenly are the writes divided?
#include <fmt/core.h>

#include <cstdlib>

#include "measure/contended_page.h"
#include "measure/managed.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int runs = 5;

struct Case {
  const char* name;
  Contention contention;
};
constexpr Case cases[] = {{"one page in turn", {64, true}},
                          {"one page", {64, false}},
                          {"two pages of 64 KiB", {contended_bytes / 2, false}}};

Measurements measure(int first, int second) {
  ::setenv("WHERRY_DEVICES", "capacity=64M,workers=1;capacity=64M,workers=1", 1);
  move_single_regions(std::size_t{64} << 10);
  allowed_cpus();
  init_cuda();
  std::byte* const memory = alloc_managed(contended_bytes);
  const std::string pair = first < 0 ? "host and device" : "two devices";
  Measurements results;
  for (const Case& what : cases) {
    std::vector<double> writes, shares, moves;
    for (int run = -1; run < runs; ++run) {
      const ContentionResult result = contend(memory, what.contention, first, second);
      if (run < 0) continue;  // the first run warms up
      writes.push_back(result.writes_per_s);
      shares.push_back(result.poorer_share);
      moves.push_back(result.regions_moved_per_s);
    }
    const std::string name = fmt::format("{}, {}", pair, what.name);
    results.push_back({name + ", writes", median(writes), "1/s", {}, {}});
    if (!what.contention.in_turn)
      results.push_back({name + ", the poorer one's share", median(shares) * 100, "%", {}, {}});
    results.push_back({name + ", moves of the region", median(moves), "1/s", {}, {}});
  }
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all = measure_in_child([] { return measure(-1, 0); });
  for (Measurement& next : measure_in_child([] { return measure(0, 1); }))
    all.push_back(std::move(next));
  return print_report("contention: two processors that write the same memory", all, json);
}
