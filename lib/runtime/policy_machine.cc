#include "runtime/policy_machine.h"

#include <vector>

#include "base/page.h"
#include "base/processor.h"
#include "os/memory/numa.h"

namespace wherry::impl {
namespace {

// Memory is nearly as fast as one's own on nodes that are next to each other, as those of one
// socket may be.
constexpr int close_distance = 12;

}  // namespace

PolicyMachine policy_machine(std::span<const PolicyProcessor> processors,
                             const std::function<int(int, int)>& distance) {
  PolicyMachine machine;
  auto& [access_costs, nodes] = machine;
  nodes.processors = static_cast<int>(processors.size());
  for (std::size_t p = 0; p < processors.size(); ++p) {
    const PolicyProcessor& its = processors[p];
    nodes.node[p] = its.node;
    nodes.capacity_pages[p] = its.capacity_pages == 0 ? ~std::uint64_t{0} : its.capacity_pages;
    for (std::size_t q = 0; q < processors.size(); ++q) {
      const PolicyProcessor& other = processors[q];
      const ProcessorMask other_bit = Processor{static_cast<int>(q)}.bit();
      nodes.distance[p][q] = distance(its.node, other.node);
      // Every processor maps every pool.
      access_costs.maps[p] |= other_bit;
      if (p == q || (!its.emulated && !other.emulated && nodes.distance[p][q] <= close_distance))
        access_costs.close[p] |= other_bit;
      access_costs.percent[p][q] = static_cast<std::uint16_t>(10 * nodes.distance[p][q]);
    }
  }
  return machine;
}

PolicyMachine policy_machine_of(const Topology& topology) {
  std::vector<PolicyProcessor> processors{
      {topology.host_nodes.front(), topology.host_capacity / page_size}};
  for (const DeviceConfig& device : topology.devices)
    processors.push_back({device.node, device.capacity / page_size, device.emulated});
  return policy_machine(processors, node_distance);
}

}  // namespace wherry::impl
