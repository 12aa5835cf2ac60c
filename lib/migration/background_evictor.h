// Evicts before a device's pool is full, so that a fault does not normally wait for an eviction,
// and frees what could not be freed at once.
//
// The thread wakes when a pool has fewer free pages than the low watermark. It gives up pages that
// nobody uses, and evicts blocks until the pool has as many as the high watermark. Then it samples
// other blocks of the pool (access_sampler.h), so that the replacement learns which blocks the
// device uses.
//
// A pool of fewer than 16 blocks has no watermarks: free pages would cost it more hits than the
// waits that they save.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "migration/access_sampler.h"
#include "migration/evictor.h"

namespace wherry::impl {

// Numbers of free pages of a pool. Both are 0 if the pool has no watermarks.
struct Watermarks {
  std::uint64_t low = 0;   // with fewer free pages the thread wakes
  std::uint64_t high = 0;  // it evicts until this many pages are free

  static Watermarks of(std::uint64_t capacity_pages);
};

class BackgroundEvictor {
 public:
  // `give_up(p)`: frees pages of p's pool that nobody uses; returns false if there are none.
  // `free_held()`: frees pages that were held when the program freed them; returns true if none is
  // left.
  BackgroundEvictor(PageEngine& engine, Evictor& evictor, AccessSampler& sampler,
                    std::function<bool(Processor)> give_up, std::function<bool()> free_held)
      : engine_(engine),
        evictor_(evictor),
        sampler_(sampler),
        give_up_(std::move(give_up)),
        free_held_(std::move(free_held)) {}
  // Waits for the eviction of a block that has begun.
  ~BackgroundEvictor();
  // Starts the thread. Call it once, before any page comes to a pool.
  void start();
  // Tells the thread that free_held() has work. Any thread.
  void notify() { notifier_.notify(); }

 private:
  void work();
  // Returns true if enough pages are free, or no more can be evicted.
  bool relieve(Processor p);

  PageEngine& engine_;
  Evictor& evictor_;
  AccessSampler& sampler_;
  const std::function<bool(Processor)> give_up_;
  const std::function<bool()> free_held_;
  Notifier notifier_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace wherry::impl
