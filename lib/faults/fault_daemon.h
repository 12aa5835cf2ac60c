// The threads that read fault messages and have the faults resolved: one per CPU up to
// handlers_max, beyond that one for a few neighbouring CPUs each. All are pinned, and all poll the
// descriptors of all processors, because waking a handler on the faulting thread's own CPU is far
// cheaper than on another one. Handlers block all signals and never touch managed memory.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/lock.h"
#include "base/processor.h"
#include "faults/fault_service.h"
#include "os/files/fd.h"
#include "trap/fault_source.h"

namespace wherry::impl {

// A fault wakes every handler that polls: with a handler on each of 2, 16 and 32 CPUs a first touch
// took 14, 27 to 36 and 55 to 66 us.
inline constexpr std::size_t handlers_max = 32;

// Which CPUs each handler runs on: every one of these, which ascend, in groups of neighbours that
// differ by one CPU at most.
std::vector<std::vector<int>> divide_among_handlers(const std::vector<int>& cpus);

class PostponedFaults;

class FaultDaemon {
 public:
  // Handlers on all of these CPUs, idle until the first listen().
  FaultDaemon(FaultService& service, const std::vector<int>& cpus);
  // Stops the handlers. Requires: no thread can fault on the arena any more.
  ~FaultDaemon();

  // From now on answers the faults of p that come through `source`; nullptr: listens to p no more.
  void listen(Processor p, std::shared_ptr<const FaultSource> source) EXCLUDES(lock_);

 private:
  using Sources = std::array<std::shared_ptr<const FaultSource>, max_processors>;

  struct Handler {
    Fd kick;  // eventfd: the sources changed, or it is time to stop
    std::thread thread;
  };

  void end_handlers();
  void handle(const std::vector<int>& cpus, const Fd& kick, PostponedFaults& postponed);
  Sources sources() const EXCLUDES(lock_);

  FaultService& service_;
  mutable Mutex lock_{LockOrder::fault_sources};
  Sources sources_ GUARDED_BY(lock_);
  std::atomic<std::uint64_t> generation_{1};  // of sources_
  std::atomic<bool> stopping_{false};
  std::vector<Handler> handlers_;  // fixed after construction
};

}  // namespace wherry::impl
