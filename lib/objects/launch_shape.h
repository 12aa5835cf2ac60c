// How many thread blocks and threads a launch has.
#pragma once

#include <cstddef>
#include <optional>

#include "machine/topology.h"

namespace wherry::impl {

struct LaunchShape {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  bool is_cooperative = false;  // blocks can wait for each other
};

struct LaunchSize {
  std::size_t blocks = 1;
  std::size_t block_threads = 1;

  std::size_t threads() const { return blocks * block_threads; }
};

// Returns nullopt if the device cannot run such a launch.
std::optional<LaunchSize> size_of(const LaunchShape& shape, const Topology& topology, int device);

}  // namespace wherry::impl
