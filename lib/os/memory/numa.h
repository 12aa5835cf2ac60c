// What the machine offers in nodes, CPUs and memory, as plain values, and the calls that place
// shared memory on nodes. A kernel without NUMA reads as one node 0 with every CPU and all memory.
// Any thread may call; nothing is cached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "os/memory/memory_limit.h"

namespace wherry::impl {

struct NumaNode {
  int id = 0;
  std::vector<int> cpus;          // that this process may run on (sched_getaffinity), ascending
  std::uint64_t total_bytes = 0;  // 0: no memory, or this process may not use it (cpuset)
  std::uint64_t free_bytes = 0;
  std::vector<int> distance;  // to Machine::nodes[i], 10 = itself; as the firmware says

  bool has_memory() const { return total_bytes != 0; }
};

// Plain data, so that tests describe machines that do not exist.
struct Machine {
  std::vector<NumaNode> nodes;  // ascending ids, at least one
  int start_node = 0;           // id of the node that the calling thread ran on
  // What cgroups leave this process of all nodes together.
  std::optional<MemoryLimit> memory_limit = std::nullopt;

  const NumaNode* find(int id) const;
  // Distance between two nodes of this machine, by id; unknown nodes are far away.
  int distance(int from, int to) const;
};

// Reads nodes, distances and CPUs from the kernel.
Machine read_machine();

// The node of the CPU that the calling thread runs on at this moment. No system call.
int current_node();

// Distance between two nodes, 10 = itself; as the firmware says. Unknown nodes are far away.
int node_distance(int from, int to);

// CPUs that the calling thread may run on, ascending; never empty.
std::vector<int> allowed_cpus();

// Places pages of a shared file that are created through or for this range: only on `nodes`
// (MPOL_BIND). The policy belongs to the file, not to the mapping, and stays after unmapping.
// Returns 0 or an errno. A kernel without NUMA, or one with a single node that forbids the call,
// has nothing to choose and answers 0.
[[nodiscard]] int bind_shared(void* address, std::size_t bytes, std::span<const int> nodes);

// The same as a preference: other nodes are used when `nodes` are full. Kernels before 5.15 prefer
// only the first.
[[nodiscard]] int prefer_shared(void* address, std::size_t bytes, std::span<const int> nodes);

// Moves pages that this process maps to a node, as far as the kernel can: those that other
// processes map too need CAP_SYS_NICE.
void move_to_node(const std::byte* start, std::size_t pages, std::size_t page_bytes, int node);

// The node that holds the page at `address`, asked without touching it; -1 when this process maps
// no page there. Where the kernel does not tell (no NUMA, or a container forbids the question) the
// answer is 0.
int node_of(const void* address);

}  // namespace wherry::impl
