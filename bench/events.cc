// What does recording of events cost? Compares first touches by the host with recording on and off.
#include <wherry/events.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "measure/managed.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int round_pairs = 201;
constexpr std::size_t page = 4096;
constexpr std::size_t pages_per_round = 2048;

// One write to each page of new memory. Returns nanoseconds for each.
double touch_all() {
  std::byte* const memory = alloc_managed(pages_per_round * page);
  const double begin = now_ns();
  for (std::size_t n = 0; n < pages_per_round; ++n)
    *const_cast<volatile std::byte*>(memory + n * page) = std::byte{1};
  const double each = (now_ns() - begin) / static_cast<double>(pages_per_round);
  free_managed(memory);
  return each;
}

// Calls touch_all() while all events are recorded. No thread reads events meanwhile: the rings have
// room for all of them, a fault and a new page for each touch.
double touch_recorded() {
  require(wherryStartEvents(WHERRY_EVENT_ALL, 4 * pages_per_round), "wherryStartEvents");
  const double each = touch_all();
  require(wherryStopEvents(), "wherryStopEvents");
  std::uint64_t dropped = 0;
  require(wherryCountDroppedEvents(WHERRY_EVENT_FAULT, &dropped), "wherryCountDroppedEvents");
  if (dropped != 0) fail("events were dropped");
  return each;
}

// Compares `one` with `other` in pairs. They take turns in running first.
template <typename One, typename Other>
Measurements compare(const std::string& what, int pairs, const One& one, const Other& other) {
  std::vector<double> ones, others;
  for (int pair = -1; pair < pairs; ++pair) {  // the first pair warms up
    const bool first = pair % 2 == 0;
    double of_one = first ? one() : 0;
    const double of_other = other();
    if (!first) of_one = one();
    if (pair < 0) continue;
    ones.push_back(of_one);
    others.push_back(of_other);
  }
  return {{"a fault, " + what, median(ones) / 1e3, "us", {}, {}},
          {"a fault, " + what + ", of one that is not", median_ratio(ones, others), "x", 1.03, {}}};
}

void start() {
  move_single_regions(4096);
  ::setenv("WHERRY_DEVICES", "capacity=64M", 1);
  init_cuda();
  pin_to_allowed_cpu(0);
}

Measurements measure_rings() {
  start();
  // touch_all() is compared with itself to show the noise.
  Measurements results = compare("not recorded", round_pairs, touch_all, touch_all);
  for (Measurement& next : compare("recorded", round_pairs, touch_recorded, touch_all))
    results.push_back(std::move(next));
  return results;
}

// Each run has a process of its own, because cuInit decides whether a trace is written.
constexpr int process_pairs = 31;
constexpr int rounds_of_process = 21;

double touch_in_process(const char* trace) {
  const Measurements each = measure_in_child([trace] {
    if (trace != nullptr) ::setenv("WHERRY_TRACE", trace, 1);
    start();
    std::vector<double> rounds;
    for (int round = 0; round < rounds_of_process; ++round) rounds.push_back(touch_all());
    return Measurements{{"", median(rounds), "", {}, {}}};
  });
  return each[0].value;
}

Measurements measure_trace() {
  const std::string trace = std::filesystem::temp_directory_path() / "wherry-bench.trace";
  Measurements results = compare(
      "written to a file", process_pairs, [&] { return touch_in_process(trace.c_str()); },
      [] { return touch_in_process(nullptr); });
  std::filesystem::remove(trace);
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all = measure_in_child(measure_rings);
  for (Measurement& next : measure_trace()) all.push_back(std::move(next));
  return print_report("events: 4 KiB first touches by the host, recorded and not", all, json);
}
