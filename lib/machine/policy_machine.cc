#include "machine/policy_machine.h"

#include <algorithm>
#include <vector>

#include "base/page.h"
#include "base/processor.h"
#include "os/memory/numa.h"

namespace wherry::impl {
namespace {

// Up to this cost a pool counts as close: on adjacent nodes, such as those of one socket, memory is
// nearly as fast as one's own.
constexpr unsigned close_percent = 120;

// If speeds differ by a smaller factor, the memory counts as equally fast.
constexpr double clearly_slower = 1.1;
constexpr double slower_max = 100;

// The cost of an access by `its` CPUs to the memory of `node`, in percent of one to their own.
std::uint16_t percent_of(const PolicyProcessor& its, int node, int distance,
                         const NodeSpeeds& speeds) {
  const auto own = speeds.of(its.cpu_node, its.node), other = speeds.of(its.cpu_node, node);
  if (!own || !other) return static_cast<std::uint16_t>(10 * distance);
  const double ratio = std::min(*own / *other, slower_max);
  return static_cast<std::uint16_t>(
      ratio < 1 / clearly_slower || ratio > clearly_slower ? std::max(100 * ratio, 1.0) : 100);
}

}  // namespace

PolicyMachine policy_machine(std::span<const PolicyProcessor> processors,
                             const std::function<int(int, int)>& distance,
                             const NodeSpeeds& speeds) {
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
      const std::uint16_t percent = percent_of(its, other.node, nodes.distance[p][q], speeds);
      access_costs.percent[p][q] = percent;
      if (p == q || (!its.emulated && !other.emulated && percent <= close_percent))
        access_costs.close[p] |= other_bit;
    }
  }
  return machine;
}

PolicyMachine policy_machine_of(const Topology& topology) {
  const NodeSpeeds speeds = read_node_speeds().speeds;
  // The CPUs' nodes matter only for speeds.
  const Machine machine = speeds.empty() ? Machine{} : read_machine();
  const auto cpu_node_of = [&](const DeviceConfig& device) {
    for (const NumaNode& node : machine.nodes)
      if (!device.cpus.empty() && std::ranges::count(node.cpus, device.cpus.front()) != 0)
        return node.id;
    return device.node;
  };
  const int host = topology.host_nodes.front();
  std::vector<PolicyProcessor> processors{
      {host, topology.host_capacity / page_size, /*emulated=*/false, host}};
  for (const DeviceConfig& device : topology.devices)
    processors.push_back(
        {device.node, device.capacity / page_size, device.emulated, cpu_node_of(device)});
  return policy_machine(processors, node_distance, speeds);
}

}  // namespace wherry::impl
