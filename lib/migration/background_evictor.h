// Evicts ahead of need, so that a fault does not normally wait for an eviction: a thread that is woken when a device's
// pool has little room left, and makes some more.
//
// Small pools are left to those who need room: what would be kept free there is better used.
#pragma once

#include <atomic>
#include <thread>

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
  BackgroundEvictor(PageEngine& engine, Evictor& evictor) : engine_(engine), evictor_(evictor) {}
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
  Bell bell_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace wherry::impl
