// Owns the device processes: forks one for each isolated device, replaces one that has ended or is
// reset, and ends all of them with the program. Repeats three changes of the host in every device
// process: it opens more of the arena, loads a module, or places managed variables.
//
// Threads: the thread that starts the library calls fork_all(), before the library has threads of
// its own. After that any thread may call. A thread holds `lock` (LockOrder::arena) while it forks,
// so a device that starts at that moment misses no module, no variable and no part of the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/lock.h"
#include "devices/annex.h"
#include "devices/device_process.h"
#include "devices/live_devices.h"
#include "faults/fault_daemon.h"
#include "machine/runtime_options.h"
#include "memory/adopted_ranges.h"
#include "memory/arena.h"
#include "memory/page_owners.h"
#include "migration/view_switcher.h"
#include "pages/block_directory.h"
#include "runtime/processor_pools.h"
#include "trap/trap.h"

namespace wherry::impl {

class DeviceSupervisor {
 public:
  // All outlive this.
  struct Parts {
    const RuntimeOptions& options;
    const ProcessorPools& pools;
    Arena& arena;
    Annex& annex;
    LiveDevices& live;
    AdoptedRanges& adopted;
    Trap& trap;
    BlockDirectory& blocks;
    PageOwners& page_owners;
    ViewSwitcher& switcher;
  };

  explicit DeviceSupervisor(const Parts& parts);

  // Forks a process for each isolated device. Returns where each device's faults are to be read;
  // null for a coherent device, whose threads fault as the host's do. Called once. Throws
  // std::system_error.
  std::vector<std::shared_ptr<const FaultSource>> fork_all() EXCLUDES(lock);
  // Starts the devices' workers. The daemon, which listens to the devices' faults already and
  // outlives this, is told when a process is replaced. Called once, after fork_all() and before
  // other threads know of this object. Throws std::system_error.
  void run(FaultDaemon& daemon) EXCLUDES(lock);

  // The device's process, a new object after restart(). Null before fork_all() has returned, and
  // for a coherent device.
  std::shared_ptr<DeviceProcess> process(int device) const EXCLUDES(lock);
  // Ends the device's process if it still runs, and starts a new one. Managed memory keeps its
  // contents. Does nothing for a coherent device. Requires: no thread posts launches to the old
  // process any more. Throws std::system_error.
  void restart(int device) EXCLUDES(lock);
  // At the program's end: ends and reaps all device processes. None starts after that. Takes no
  // lock but that of `live`, since any thread may have called exit().
  void end_all() { parts_.live.end_all(); }

  // Opens these pages of the arena, before any of them exists: maps the files of the pools there,
  // in every process (trap/pool_view.h) and in the pools' aliases. Returns false if Linux refuses,
  // or a device does not answer.
  [[nodiscard]] bool open_arena(PageSpan needed) EXCLUDES(lock);
  // Loads the module of this address at the same place in all devices; `module` is its name in log
  // lines. Returns false if some device cannot have it; the log says why.
  [[nodiscard]] bool load_module(const std::string& module, std::uintptr_t address) EXCLUDES(lock);
  // Maps these pages of managed variables in all devices, from their own pools. Ends a device
  // process that cannot map them.
  void show(const PlacedPages& placed) REQUIRES(lock);

  // Guards which process each device has, how much of the arena is open, and changes of the
  // arena's layout. ModuleVariables holds it while it places variables.
  mutable Mutex lock{LockOrder::arena};

 private:
  std::shared_ptr<DeviceProcess>& process_of(int device) REQUIRES(lock) {
    return processes_[static_cast<std::size_t>(device)];
  }
  std::shared_ptr<DeviceProcess> fork(DeviceProcessOptions options);
  // Has the pools, the host and every device process open these pages (map the files that hold
  // them), for open_arena(). Requires: none of the pages is open yet.
  bool open(PageSpan closed) REQUIRES(lock);
  // Forks a process for the device and returns where its faults are to be read.
  std::shared_ptr<const FaultSource> start(int device) REQUIRES(lock);

  const Parts parts_;
  FaultDaemon* daemon_ = nullptr;  // null before run()
  // By device; null before fork_all(), and for coherent devices.
  std::vector<std::shared_ptr<DeviceProcess>> processes_ GUARDED_BY(lock);
};

}  // namespace wherry::impl
