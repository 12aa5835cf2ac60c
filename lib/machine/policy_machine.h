// What a policy may know of the machine that it decides for: a live run's, or a replayed one's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <wherry/policy.hpp>

#include "machine/node_speeds.h"
#include "machine/topology.h"
#include "policy/access_costs.h"

namespace wherry::impl {

struct PolicyMachine {
  AccessCosts access_costs;      // for built-in policies
  wherry::policy_machine nodes;  // for the program's own
};

struct PolicyProcessor {
  int node = 0;
  std::uint64_t capacity_pages = 0;  // 0: no limit
  bool emulated = false;             // emulates a device with memory of its own
  int cpu_node = 0;                  // where its code runs: another node if its own has no CPUs
};

// `distance`: the firmware's distance of two nodes: 10 is a node's distance to itself, others are
// ratios of latencies to that. Where `speeds` has both nodes, it is used instead.
PolicyMachine policy_machine(std::span<const PolicyProcessor> processors,
                             const std::function<int(int, int)>& distance,
                             const NodeSpeeds& speeds);

// The machine of a live run. Reads the file of node speeds.
PolicyMachine policy_machine_of(const Topology& topology);

}  // namespace wherry::impl
