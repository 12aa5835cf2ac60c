#include "machine/node_placement.h"

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
  // A memory policy is set through a mapping. The alias maps the whole first file. place() maps
  // each other file for a moment: there are others only where the address space has room for that.
  const Mapping& alias = pool.alias_mapping();
  const int* const node =
      p.is_host() ? nullptr : &topology_.devices[static_cast<std::size_t>(p.ordinal())].node;
  int error = node == nullptr ? prefer_shared(alias.data(), alias.size(), topology_.host_nodes)
                              : bind_shared(alias.data(), alias.size(), std::span(node, 1));
  const std::vector<MemoryFile>& files = pool.file().files();
  for (std::size_t i = 1; i < files.size() && error == 0; ++i)
    error = place(files[i], pool.file().bytes(),
                  p.is_host() ? Location::host() : Location::device(p.ordinal()));
  return error;
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
