// How many blocks and threads a launch has.
#pragma once

#include <cstddef>
#include <optional>

#include "runtime/topology.h"

namespace wherry::impl {

struct LaunchShape {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
};

// How many threads that are; nothing: the device has no such launch.
std::optional<std::size_t> count_threads(const LaunchShape& shape, const Topology& topology,
                                         int device);

}  // namespace wherry::impl
