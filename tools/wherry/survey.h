// The data of `wherry info`: machine, capabilities, limits, the chosen topology, and the library
// after its start.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel_features.h"
#include "machine/copy_settings.h"
#include "machine/topology.h"
#include "os/memory/numa.h"
#include "trap/trap_choice.h"

namespace wherry::tool {

// A pool, as Linux describes the files of this name that this process keeps open.
struct PoolFile {
  std::string name;  // wherry-pool-host, wherry-pool-dev0, ...
  int files = 1;
  std::uint64_t size = 0;      // bytes of address space, the size of the arena
  std::uint64_t used = 0;      // bytes of memory
  std::uint64_t capacity = 0;  // 0: limited only by the host's memory
};

struct DeviceState {
  std::string name;
  pid_t process = 0;
};

struct Survey {
  KernelFeatures features;
  std::optional<impl::TrapChoice> trap;  // nullopt if `error` says why there is none
  impl::Machine machine;
  impl::Topology topology;  // empty if `error` says why none can be chosen
  impl::CopySettings copying;
  bool huge_pools = false;  // whether pools may have huge pages
  std::string policy;       // that runs, also for `auto`; empty: none runs
  std::string policy_reason;
  std::string speeds_source;         // where the speeds of the nodes' memory come from
  Limits limits;                     // read after the library has started
  std::vector<DeviceState> devices;  // as started
  std::vector<PoolFile> pools;
  std::string error;  // why programs cannot start here; empty if they can
};

// Chooses the topology and starts the library in this process.
Survey take_survey();

}  // namespace wherry::tool
