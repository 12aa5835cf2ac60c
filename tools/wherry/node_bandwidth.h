// Measures how fast the CPUs of each NUMA node read the memory of each node.
#pragma once

#include <string>
#include <variant>

#include "machine/node_speeds.h"

namespace wherry::tool {

// Takes about a second for each pair of nodes, and up to 512 MiB of a node's memory. Returns the
// speeds, or one line that says why it cannot measure. Throws std::bad_alloc, std::system_error.
std::variant<impl::NodeSpeeds, std::string> measure_node_speeds(const impl::Machine& machine);

}  // namespace wherry::tool
