// Clocks, medians and CPUs for measurements. Thread-safe.
#pragma once

#include <string>
#include <vector>

namespace wherry::bench {

// The value below which `fraction` of the values lie. Requires: values not empty.
double percentile(std::vector<double> values, double fraction);
double median(std::vector<double> values);
// The median of value / baseline. Each pair is measured one right after the other, so that load on
// the machine affects both.
double median_ratio(const std::vector<double>& values, const std::vector<double>& baselines);

// Nanoseconds of CLOCK_MONOTONIC.
double now_ns();
// CPU time of the calling thread in nanoseconds, so that other load on the machine hardly matters.
double cpu_ns();

// Nanoseconds that work() takes.
template <typename Work>
double ns_of(const Work& work) {
  const double start = now_ns();
  work();
  return now_ns() - start;
}

// The CPUs that this program could use at the first call.
const std::vector<int>& allowed_cpus();
// Pins the calling thread to one of these CPUs; `index` wraps around.
void pin_to_allowed_cpu(int index);

// Throws std::system_error with errno.
[[noreturn]] void fail(const std::string& what);

}  // namespace wherry::bench
