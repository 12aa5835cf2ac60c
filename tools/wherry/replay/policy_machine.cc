#include "replay/policy_machine.h"

namespace wherry::replay {

impl::PolicyMachine policy_machine_of(const impl::TraceMachine& machine,
                                      const MachineSetting& setting) {
  // The trace does not say how far nodes are from each other: as far as two sockets usually are.
  constexpr int same_node = 10, other_node = 20;
  impl::PolicyMachine result;
  result.nodes.processors = setting.processors;
  const auto node_of = [&](int p) {
    const auto& nodes = machine.processors[static_cast<std::size_t>(p)].nodes;
    return nodes.empty() ? 0 : static_cast<int>(nodes.front());
  };
  for (int p = 0; p < setting.processors; ++p) {
    const auto row = static_cast<std::size_t>(p);
    result.nodes.node[p] = node_of(p);
    const std::uint64_t capacity = setting.capacity_pages[row];
    result.nodes.capacity_pages[p] = capacity == 0 ? ~std::uint64_t{0} : capacity;
    for (int other = 0; other < setting.processors; ++other) {
      const bool same = node_of(p) == node_of(other);
      result.nodes.distance[p][other] = same ? same_node : other_node;
      result.reach.maps[row] |= impl::Processor{other}.bit();
      result.reach.percent[row][static_cast<std::size_t>(other)] =
          same ? 10 * same_node : 10 * other_node;
      // A device on the host's node stands for one with memory of its own, elsewhere.
      const bool emulated = node_of(p) == node_of(0);
      if (p == other || (same && !emulated))
        result.reach.close[row] |= impl::Processor{other}.bit();
    }
  }
  return result;
}

}  // namespace wherry::replay
