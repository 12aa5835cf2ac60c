#include "runtime/status_facts.h"

#include "machine/policy_machine.h"
#include "machine/policy_source.h"
#include "policy/policies.h"

namespace wherry::impl {

StatusFacts status_facts(const RuntimeOptions& options, const ArenaLayout& layout) {
  const Topology& topology = options.topology;
  StatusFacts facts;
  facts.version = WHERRY_VERSION;
  facts.trap = to_string(options.trap);
  facts.policy = options.policy_name.empty() ? automatic_policy : options.policy_name;
  facts.policy_in_force =
      name_in_force(options.policy_name, policy_machine_of(topology).access_costs);
  facts.arena_base = layout.base();
  facts.blocks = options.arena_bytes / block_size;
  facts.variables_from = layout.row_bytes() / block_size;
  facts.processors.push_back(
      {ShownKind::host, topology.host_nodes.front(), topology.host_capacity});
  for (const DeviceConfig& device : topology.devices)
    facts.processors.push_back(
        {device.kind == DeviceKind::coherent ? ShownKind::coherent : ShownKind::isolated,
         device.node, device.capacity});
  return facts;
}

}  // namespace wherry::impl
