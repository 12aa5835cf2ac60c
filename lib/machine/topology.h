// Chooses the host's nodes, the devices and their resources, once, at initialization. Pure
// functions turn the machine and three environment variables into a value or one line that says
// what is wrong and where. They make no system calls, so tests can describe machines that they do
// not have.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/processor.h"
#include "machine/device_kind.h"
#include "os/memory/numa.h"

namespace wherry::impl {

struct DeviceConfig {
  int number = 0;            // its place among all devices, also hidden ones
  int node = 0;              // its pool is bound to this node
  std::size_t capacity = 0;  // bytes its pool may hold; whole pages
  DeviceKind kind = DeviceKind::isolated;
  int workers = 1;  // threads that run kernels
  std::vector<int>
      cpus;  // where they run: the node's own, or borrowed from the nearest node with CPUs
  bool borrows_cpus = false;
  bool concurrent = true;  // host and device may touch managed memory at the same time
  bool emulated = false;   // shares the host's node: real copies, but equally fast memory
};

struct Topology {
  std::vector<int> host_nodes;    // ascending, at least one
  std::size_t host_capacity = 0;  // bytes the host's pool may hold, whole pages; 0: no limit
  // The cgroup's limit that host_capacity follows from; nullopt if WHERRY_HOST_CAPACITY set it, or
  // there is none.
  std::optional<MemoryLimit> host_limit = std::nullopt;
  std::vector<DeviceConfig> devices;  // device 0 first, at least one, at most max_devices
  int cpu_clock_khz = 1'000'000;      // of the CPUs on which devices work
};

// One line, without a newline: "WHERRY_DEVICES: unknown key 'capcity' at character 8 in ...".
struct TopologyError {
  std::string message;
};

using TopologyResult = std::variant<Topology, TopologyError>;

// Chooses the topology of `machine`. `devices` and `host_nodes` are the values of WHERRY_DEVICES
// and WHERRY_HOST_NODES; an empty one (or only blanks) means the default:
// - Host: the node where the program starts, unless a device asks for it: then the nearest other
//   node with CPUs.
// - Devices: one for each other node with memory (the 8 nearest). If there is none, one emulated on
//   the host's node.
// - A device's node: those of the default devices' nodes that no device asks for, in turn.
// - Its capacity: 15/16 of the node, a quarter of it where the host lives too; shared equally
//   with other devices there. Less where a cgroup limits memory: then the host's pool gets what
//   devices leave of 15/16 of the available memory.
// - Its workers: as many as the node has CPUs.
// `host_capacity` is the value of WHERRY_HOST_CAPACITY; empty: no limit.
TopologyResult choose_topology(const Machine& machine, std::string_view devices,
                               std::string_view host_nodes, std::string_view host_capacity = {});

// What to change so that the host's pool may hold more: "raise WHERRY_HOST_CAPACITY", or the limit
// of the cgroup, with its file. Requires: host_capacity is not 0.
std::string more_for_host(const Topology& topology);
// What to change so that all pools together may hold more.
std::string more_for_pools(const Topology& topology);

// For each CPU number, the processor that a thread on this CPU counts as if it is attached by CPU:
// the coherent device (the first, if there are several) on whose node the CPU is, else the host.
// CPUs beyond the list are the host's.
std::vector<Processor> processors_by_cpu(const Topology& topology);

}  // namespace wherry::impl
