// Small programs that show what a policy is good for: each a pattern of sharing that real codes
// have, with the host and one or two devices. Each checks what it computed.
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

// When it was done, as std::chrono::steady_clock counts, and traces do.
struct Interval {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;

  double seconds() const { return static_cast<double>(end_ns - begin_ns) / 1e9; }
};

struct Workload {
  const char* name;
  const char* meaning;
  int devices;  // that it needs
  // Sets up, works, and checks. Returns when it worked. Throws wherry::error, std::runtime_error
  // when what came out is wrong.
  Interval (*run)(const WorkloadSetting& setting);
};

std::span<const Workload> workloads();

}  // namespace wherry::tool
