#include "replay/policy_machine.h"

namespace wherry::replay {

impl::PolicyMachine policy_machine_of(const impl::TraceMachine& machine,
                                      const MachineSetting& setting) {
  // The trace does not contain the distances between nodes; these are those of two sockets.
  constexpr int same_node = 10, other_node = 20;
  std::vector<impl::PolicyProcessor> processors;
  for (std::size_t p = 0; p < machine.processors.size(); ++p) {
    const auto& nodes = machine.processors[p].nodes;
    const int node = nodes.empty() ? 0 : static_cast<int>(nodes.front());
    // The trace does not say whether a device is emulated. A device on the host's node is assumed
    // to be emulated.
    const bool emulated = p != 0 && node == processors.front().node;
    processors.push_back({node, setting.capacity_pages[p], emulated, node});
  }
  return impl::policy_machine(
      processors, [](int node, int other) { return node == other ? same_node : other_node; }, {});
}

}  // namespace wherry::replay
