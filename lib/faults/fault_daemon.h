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

// How many handlers a machine with so many CPUs gets.
std::size_t handlers_for(std::size_t cpus);

// By processor; null: its faults are not listened to.
using FaultSources = std::array<std::shared_ptr<const FaultSource>, max_processors>;

class PostponedFaults;

class FaultDaemon {
 public:
  // Handlers that run on these CPUs, idle until the first listen().
  FaultDaemon(FaultService& service, const std::vector<int>& cpus);
  // Stops the handlers. Requires: nobody can fault any more.
  ~FaultDaemon();

  // From now on answers the faults of p that come through `source`; nullptr: listens to p no more.
  void listen(Processor p, std::shared_ptr<const FaultSource> source) EXCLUDES(lock_);

 private:
  void end_handlers();
  void handle(std::size_t handler, PostponedFaults& postponed);
  FaultSources sources() const EXCLUDES(lock_);

  FaultService& service_;
  mutable Mutex lock_{LockOrder::fault_sources};
  FaultSources sources_ GUARDED_BY(lock_);
  std::atomic<std::uint64_t> generation_{1};  // of sources_
  std::atomic<bool> stopping_{false};
  const std::vector<int> cpus_;
  Watchers watchers_;
  std::vector<std::thread> handlers_;
};

}  // namespace wherry::impl
