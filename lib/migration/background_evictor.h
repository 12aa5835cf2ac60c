// Evicts ahead of need, so that a fault does not normally wait for an eviction: a thread that is
// woken when a device's pool has little room left, makes some more, and then has the accesses to
// some blocks made visible, so that the right ones leave next.
//
// Small pools are left to those who need room: what would be kept free there is better used.
#pragma once

#include <atomic>
#include <thread>

#include "migration/access_sampler.h"
#include "migration/evictor.h"

namespace wherry::impl {

// How much of a pool is kept free, in pages. Both 0: nothing is.
struct Watermarks {
  std::uint64_t low = 0;   // less free wakes the thread
  std::uint64_t high = 0;  // and it evicts until so much is

  static Watermarks of(std::uint64_t capacity_pages);
};

class BackgroundEvictor {
 public:
  BackgroundEvictor(PageEngine& engine, Evictor& evictor, AccessSampler& sampler)
      : engine_(engine), evictor_(evictor), sampler_(sampler) {}
  // Ends after the block under way.
  ~BackgroundEvictor();
  // Nothing is evicted before. Once, and before any page comes to a pool.
  void start();

 private:
  void work();
  // True: there is enough room, or nothing can be done about it.
  bool relieve(Processor p);

  PageEngine& engine_;
  Evictor& evictor_;
  AccessSampler& sampler_;
  Notifier notifier_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace wherry::impl
