// Common parts of the commands of `wherry bench`: measuring, and printing results.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "svg_plot.h"

namespace wherry::tool {

// One result. A figure that is 0 does not apply and is not printed.
struct BenchRow {
  std::string name;         // "prefetch to the device"
  std::string key;          // the name in JSON: "prefetch_to_device"
  double seconds = 0;       // the median of several runs
  std::uint64_t bytes = 0;  // bytes moved in that time
  double p50_us = 0;        // of single operations
  double p99_us = 0;
  double ratio = 0;     // of this result to the one named by `against`
  std::string against;  // "memcpy"
};

struct BenchReport {
  std::string title;    // "prefetch of 256 MiB between the host and device 0"
  std::string machine;  // kernel, CPUs
  std::vector<BenchRow> rows;
};

// "Linux 6.1.0, 2 CPUs".
std::string describe_machine();

// Saves the plot if the user has named a file for it (--svg). Returns false if that fails; an error
// line was printed then.
[[nodiscard]] bool save_plot(const Plot& plot, const std::string& file);

std::string as_text(const BenchReport& report);
std::string as_json(const BenchReport& report);

// `part`: 0.5 for the median. Requires: `values` is not empty.
double quantile(std::vector<double> values, double part);

template <typename Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace wherry::tool
