// What `wherry info` knows: machine, capabilities, limits, the chosen topology, and the library as
// it starts here.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/memory/numa.h"
#include "os/process/features.h"
#include "runtime/copy_settings.h"
#include "runtime/topology.h"
#include "trap/trap_choice.h"

namespace wherry::tool {

// A pool file, as the kernel describes the descriptor that this process keeps open.
struct PoolFile {
  std::string name;            // wherry-pool-host, wherry-pool-dev0, ...
  std::uint64_t size = 0;      // bytes of address space: as large as the arena
  std::uint64_t used = 0;      // bytes of memory
  std::uint64_t capacity = 0;  // 0: as much as the host has
};

struct DeviceState {
  std::string name;
  pid_t process = 0;
};

struct Survey {
  impl::Features features;
  std::optional<impl::TrapChoice> trap;  // nothing when `error` says why none could be chosen
  impl::Machine machine;
  impl::Topology topology;  // empty when `error` says why none could be chosen
  impl::CopySettings copying;
  bool huge_pools = false;           // pools may have huge pages
  impl::Limits limits;               // after the library has started
  std::vector<DeviceState> devices;  // as started
  std::vector<PoolFile> pools;
  std::string error;  // why programs cannot start here; empty when they can
};

// Chooses the topology and starts the library in this process.
Survey take_survey();

}  // namespace wherry::tool
