#include "runtime/node_placement.h"

#include <algorithm>

#include "os/memory/mapping.h"
#include "os/memory/numa.h"

namespace wherry::impl {

bool NodePlacement::has_one_node() const {
  return topology_.host_nodes.size() == 1 &&
         std::ranges::all_of(topology_.devices, [&](const DeviceConfig& device) {
           return device.node == topology_.host_nodes.front();
         });
}

std::span<const int> NodePlacement::host_nodes() const {
  return has_one_node() ? std::span<const int>() : topology_.host_nodes;
}

int NodePlacement::place(const SparsePoolFile& pool, Processor p) const {
  if (has_one_node()) return 0;
  const Location location = p.is_host() ? Location::host() : Location::device(p.ordinal());
  for (const MemoryFile& file : pool.file().files())
    if (const int error = place(file, pool.file().bytes(), location)) return error;
  return 0;
}

int NodePlacement::place(const MemoryFile& file, std::size_t bytes, Location location) const {
  if (has_one_node()) return 0;
  if (location.kind == Location::Kind::device) {
    const int& node = topology_.devices[static_cast<std::size_t>(location.id)].node;
    return file.bind_nodes(0, bytes, std::span(&node, 1));
  }
  if (location.kind == Location::Kind::host_node)
    return file.prefer_nodes(0, bytes, std::span(&location.id, 1));
  return file.prefer_nodes(0, bytes, topology_.host_nodes);
}

}  // namespace wherry::impl
