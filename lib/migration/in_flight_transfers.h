// Which pages are in flight, and which thread began their transfer. A waiter can thereby
// distinguish a slow transfer (its source may be a network file, or swap) from one that will never
// end, and can sleep until the next transfer ends. A transfer is live while its thread exists. A
// thread that ends in the middle of a copy (pthread_exit in a signal handler) leaves a dead
// transfer.
//
// The state of the pages themselves is in their block (pages/block.h). Any thread; the caller may
// hold any lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "base/lock.h"
#include "base/page.h"
#include "os/memory/mapped_memory.h"

namespace wherry::impl {

class InFlightTransfers {
 public:
  // The calling thread has begun a transfer of these pages.
  void begun(PageSpan pages) EXCLUDES(lock_);
  // The transfer of these pages that the calling thread began has completed or was aborted. Other
  // threads may transfer the same pages at the same time (device memory, which stays where it is).
  // Calls announce().
  void ended(PageSpan pages) EXCLUDES(lock_);
  // Whether some of these pages are in a live transfer of a thread other than `except`, which
  // cannot wait for itself.
  bool is_live(PageSpan pages, std::uint32_t except = 0) const EXCLUDES(lock_);

  // Wakes the threads that sleep in wait(), because something that they may wait for has ended.
  void announce();
  // A waiter calls seen(), checks its condition, and then calls wait(), which returns after the
  // next announce() since seen(), or after `limit_ms`.
  std::uint32_t seen() const { return announced_.load(); }
  void wait(std::uint32_t seen, int limit_ms) const;

 private:
  struct Live {
    PageSpan pages;
    std::uint32_t thread;
  };

  std::atomic<std::uint32_t> announced_{0};
  mutable std::atomic<std::uint32_t> sleepers_{0};
  mutable Mutex lock_{LockOrder::in_flight_transfers};
  // Its memory is not malloc's: handlers of faults add to it. A transfer for which there is no
  // memory here is taken for a dead one.
  std::pmr::vector<Live> transfers_ GUARDED_BY(lock_) = std::pmr::vector<Live>(&mapped_memory());
};

}  // namespace wherry::impl
