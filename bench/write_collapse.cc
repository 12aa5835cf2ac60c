// How long does the host need to write to pages of which devices hold copies, compared with Linux's
// bare calls that end the copies?
#include <fmt/core.h>

#include "measure/collapse.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int runs = 10;
constexpr std::size_t page = 4096;
constexpr std::size_t bytes = std::size_t{64} << 20;

struct Case {
  const char* name;
  std::size_t region;
  std::size_t stride;
};
// Each write is a fault of its own, in another 64 KiB than the previous one: after a fault, the
// pages of its 64 KiB stay where they are for a while (minimum residency).
constexpr Case single_page{"single page", page, 16 * page};
// One fault also covers the neighbours, as in the default configuration.
constexpr Case sequential{"sequential writer", 16 * page, page};

Measurements measure(const Case& what, int devices) {
  const CollapseTimes times = measure_collapse({bytes, what.region, what.stride, devices, runs});
  const std::string name =
      fmt::format("{}, {} on {}", what.name, devices == 1 ? "copy" : "copies",
                  devices == 1 ? "1 device" : fmt::format("{} devices", devices));
  Measurements results{{name, median(times.ours), "us/page", {}, {}}};
  if (!times.bare.empty()) {
    results.push_back({name + ", bare sequence", median(times.bare), "us/page", {}, {}});
    results.push_back({name + ", ratio", median_ratio(times.ours, times.bare), "x", 1.5, {}});
  }
  results.push_back({name + ", pages a fault", times.pages_per_fault, "", {}, {}});
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all;
  for (const Case& what : {single_page, sequential}) {
    for (const int devices : {1, 2}) {
      for (Measurement& next : measure_in_child([&] { return measure(what, devices); })) {
        all.push_back(std::move(next));
      }
    }
  }
  return print_report("write_collapse: writes to pages that devices have copies of", all, json);
}
