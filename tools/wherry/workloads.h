// Small programs that show what a policy is good for: each a pattern of sharing that real codes have, with the host and one or
// two devices. Each checks what it computed.
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

struct Workload {
  const char* name;
  const char* meaning;
  int devices;  // that it needs
  // Sets up, works, and checks. Returns the seconds that the work took. Throws wherry::error, std::runtime_error when what came
  // out is wrong.
  double (*run)(const WorkloadSetting& setting);
};

std::span<const Workload> workloads();

}  // namespace wherry::tool
