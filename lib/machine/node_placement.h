// Sets on which NUMA nodes pools and files of other memory lie, as the topology says. Where the
// host and all devices share one node there is no choice, and no memory policy is set. Any thread
// may call: there is no state and no lock.
#pragma once

#include <cstddef>
#include <span>

#include "base/processor.h"
#include "machine/topology.h"
#include "memory/pool.h"
#include "os/files/memory_file.h"
#include "pages/advice.h"

namespace wherry::impl {

class NodePlacement {
 public:
  // The topology outlives this.
  explicit NodePlacement(const Topology& topology) : topology_(topology) {}

  // The host's nodes; empty if the host and all devices share one node.
  std::span<const int> host_nodes() const;
  // Pages that p's pool gets from now on lie on p's nodes: on one of the host's if possible, on a
  // device's always. Returns 0 or an errno.
  [[nodiscard]] int place(const SparsePoolFile& pool, Processor p) const;
  // Has the first `bytes` of a file lie on the nodes of a location: a device, the host, or one of
  // the host's nodes.
  [[nodiscard]] int place(const MemoryFile& file, std::size_t bytes, Location location) const;

 private:
  bool has_one_node() const;

  const Topology& topology_;
};

}  // namespace wherry::impl
