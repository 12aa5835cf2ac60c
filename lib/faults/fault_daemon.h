// The threads that read fault messages and have the faults resolved. A few of them watch the
// descriptors of all processors, the others rest until they are needed (faults/watchers.h). A
// watcher that has answered a fault looks for the next one for a moment before it waits in Linux,
// because waking a thread takes longer than answering a fault. Handlers block all signals and never
// touch managed memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "base/lock.h"
#include "base/processor.h"
#include "faults/fault_service.h"
#include "faults/watchers.h"
#include "trap/fault_source.h"

namespace wherry::impl {

// By processor; null if the daemon does not listen to its faults.
using FaultSources = std::array<std::shared_ptr<const FaultSource>, max_processors>;

class PostponedFaults;

class FaultDaemon {
 public:
  // Starts handlers that run on these CPUs. They are idle until the first listen().
  FaultDaemon(FaultService& service, const std::vector<int>& cpus);
  // Stops the handlers. Requires: no thread can fault any more.
  ~FaultDaemon();

  // From now on answers the faults of p that come through `source`; with nullptr, no faults of p.
  void listen(Processor p, std::shared_ptr<const FaultSource> source) EXCLUDES(lock_);

 private:
  struct Placement {
    int waiting_max;                     // handlers that may wait for faults in Linux
    std::uint64_t spin_ns;               // how long a handler looks for the next fault
    std::vector<std::vector<int>> cpus;  // by handler: the CPUs that it may use
  };

  static Placement place_handlers(const std::vector<int>& cpus);
  void end_threads();
  // Runs the guard, which has another handler watch when an answer takes long (Watchers::guard()).
  void guard();
  void handle(std::size_t handler, PostponedFaults& postponed);
  FaultSources sources() const EXCLUDES(lock_);

  FaultService& service_;
  mutable Mutex lock_{LockOrder::fault_sources};
  FaultSources sources_ GUARDED_BY(lock_);
  std::atomic<std::uint64_t> generation_{1};  // changes with sources_
  std::atomic<bool> stopping_{false};
  const Placement placement_;
  Watchers watchers_;
  std::vector<std::thread> threads_;  // the handlers and the guard
};

}  // namespace wherry::impl
