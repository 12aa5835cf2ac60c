// The machine's nodes, CPUs and memory as plain values, and the calls that place shared memory on
// nodes. Linux without NUMA is reported as one node 0 with every CPU and all memory. Any thread;
// nothing is cached.
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
  std::vector<int> cpus;          // CPUs that this process may use (sched_getaffinity), ascending
  std::uint64_t total_bytes = 0;  // 0: no memory, or forbidden to this process (cpuset)
  std::uint64_t free_bytes = 0;
  std::vector<int> distance;  // to Machine::nodes[i]; 10 = itself; from the firmware

  bool has_memory() const { return total_bytes != 0; }
};

// Plain data, so that tests can describe fictitious machines.
struct Machine {
  std::vector<NumaNode> nodes;  // ascending ids; at least one
  int start_node = 0;           // id of the node on which the calling thread ran
  // The cgroup limit for all nodes together.
  std::optional<MemoryLimit> memory_limit = std::nullopt;
  int cpu_clock_khz = 1'000'000;

  const NumaNode* find(int id) const;
  // The distance between two nodes of this machine, by id. Unknown nodes are far away.
  int distance(int from, int to) const;
};

// Reads nodes, distances and CPUs from Linux.
Machine read_machine();

// The node of the CPU on which the calling thread is running. No system call.
int current_node();

// The distance between two nodes; 10 = itself; from the firmware. Unknown nodes are far away.
int node_distance(int from, int to);

// The CPUs that the calling thread may use, ascending; never empty.
std::vector<int> allowed_cpus();

// Restricts pages of a shared file that are created from now on in this range to `nodes`
// (MPOL_BIND). The policy belongs to the file, not to the mapping, and remains after unmapping.
// Returns 0 or an errno. Returns 0 if Linux lacks NUMA, or has a single node and forbids the
// call: there is no choice then.
[[nodiscard]] int bind_shared(void* address, std::size_t bytes, std::span<const int> nodes);

// Prefers `nodes` for pages that are created from now on in this range of a shared file; other
// nodes are used when these are full. Linux before 5.15 prefers only the first node. Returns 0 or
// an errno, and 0 where bind_shared() does.
[[nodiscard]] int prefer_shared(void* address, std::size_t bytes, std::span<const int> nodes);

// Moves pages that this process maps to a node, if Linux can. Pages that other processes also
// map need CAP_SYS_NICE.
void move_to_node(const std::byte* start, std::size_t pages, std::size_t page_bytes, int node);

// A memory policy: on which nodes pages are created.
struct MemoryPolicy {
  enum class Kind {
    none,     // no policy: a mapping has the thread's instead, a thread has Linux's default
    local,    // on the node of the thread that creates the page, or near it
    prefers,  // on one of `nodes`, or on others when these are full
    other,
  };

  Kind kind = Kind::none;
  std::vector<int> nodes = {};  // ascending, as Linux returns them
};

// Reads the policy of the mapping at `address`. Returns nullopt if nothing is mapped there, or if
// Linux does not report it (no NUMA, or a container forbids the call).
std::optional<MemoryPolicy> mapping_policy(std::uintptr_t address);
// Reads the policy of the calling thread; nullopt if Linux does not report it.
std::optional<MemoryPolicy> thread_policy();

// Sets the policy, which is not of kind `other`, for pages of private memory that are created from
// now on; existing pages stay where they are. It belongs to the mappings: it ends when the range is
// unmapped, and moves and forks with it. Kernels before 5.15 prefer only the first node. Returns 0
// or an errno.
[[nodiscard]] int set_mapping_policy(std::uintptr_t start, std::size_t bytes,
                                     const MemoryPolicy& policy);

// Moves those of the pages that lie on none of `nodes` to the first of `nodes` that takes them.
// These stay where they are: absent pages, pages that other processes map too, and pages that
// Linux cannot move, for example because they are pinned. Their contents and their access rights
// stay as they are. Takes about a microsecond for each page.
void move_to_one_of(std::uintptr_t start, std::size_t pages, std::size_t page_bytes,
                    std::span<const int> nodes);

// While an object lives, pages that the calling thread creates in mappings without a policy of
// their own lie on one of `nodes`, or on other nodes when these are full. Does nothing where Linux
// refuses. The thread that makes it also destroys it.
class ThreadPlacement {
 public:
  explicit ThreadPlacement(std::span<const int> nodes);
  ~ThreadPlacement();
  ThreadPlacement(const ThreadPlacement&) = delete;
  ThreadPlacement& operator=(const ThreadPlacement&) = delete;

 private:
  int earlier_mode_ = 0;
  std::vector<unsigned long> earlier_nodes_;  // empty: the policy was not changed
};

// Returns the node that holds the page at `address`, without accessing the page; -1 if this process
// maps no page there; 0 if Linux does not report it (no NUMA, or a container forbids the call).
int node_of(const void* address);

}  // namespace wherry::impl
