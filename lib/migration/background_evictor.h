// Evicts ahead of need, so that a fault does not normally wait for an eviction. The thread is woken
// when a device's pool has few free pages. It evicts blocks, and then makes accesses to some other
// blocks visible, so that the replacement chooses the right blocks next.
//
// It leaves small pools alone: their pages are better used than kept free.
#pragma once

#include <atomic>
#include <thread>

#include "migration/access_sampler.h"
#include "migration/evictor.h"

namespace wherry::impl {

// How many pages of a pool are kept free. Both 0: none.
struct Watermarks {
  std::uint64_t low = 0;   // with fewer free pages, the thread is woken
  std::uint64_t high = 0;  // it evicts until so many pages are free

  static Watermarks of(std::uint64_t capacity_pages);
};

class BackgroundEvictor {
 public:
  BackgroundEvictor(PageEngine& engine, Evictor& evictor, AccessSampler& sampler)
      : engine_(engine), evictor_(evictor), sampler_(sampler) {}
  // Waits for the eviction of a block that has begun.
  ~BackgroundEvictor();
  // Starts the thread. Call it once, before any page comes to a pool.
  void start();

 private:
  void work();
  // True: enough pages are free, or no more can be evicted.
  bool relieve(Processor p);

  PageEngine& engine_;
  Evictor& evictor_;
  AccessSampler& sampler_;
  Notifier notifier_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace wherry::impl
