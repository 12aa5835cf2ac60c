// What the commands of `wherry bench` share: how they measure, and how they tell what came out.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace wherry::tool {

// One figure. What does not apply is 0, and is left out where it is shown.
struct BenchRow {
  std::string name;         // "prefetch to the device"
  std::string key;          // the same in JSON: "prefetch_to_device"
  double seconds = 0;       // the median of several runs
  std::uint64_t bytes = 0;  // that came to their place in that time
  double p50_us = 0;        // of single events
  double p99_us = 0;
  double ratio = 0;     // to the figure that it is held against
  std::string against;  // which that is
};

struct BenchReport {
  std::string title;    // "prefetch of 256 MiB, device 0"
  std::string machine;  // kernel, CPUs
  std::vector<BenchRow> rows;
};

// "Linux 6.1.0, 2 CPUs".
std::string describe_machine();

std::string as_text(const BenchReport& report);
std::string as_json(const BenchReport& report);

// Sorts; 0.5 is the median. Requires: there are values.
double quantile(std::vector<double> values, double part);

template <typename Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace wherry::tool
