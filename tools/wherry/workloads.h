// Small programs on which policies are compared. Each has a sharing pattern that occurs in real
// programs, with the host and one or two devices, and checks its own results.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <wherry/wherry.hpp>

namespace wherry::tool {

struct WorkloadSetting {
  const runtime& library;
  std::uint64_t seed = 1;
};

// Begin and end, in nanoseconds of std::chrono::steady_clock, as in traces.
struct Interval {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;

  double seconds() const { return static_cast<double>(end_ns - begin_ns) / 1e9; }
};

struct Workload {
  const char* name;
  const char* meaning;
  int devices;  // number of devices that it needs
  // Sets up, works, and checks. Returns the interval of the work. Throws wherry::error, and
  // std::runtime_error if a result is wrong.
  Interval (*run)(const WorkloadSetting& setting);
};

std::span<const Workload> workloads();

}  // namespace wherry::tool
