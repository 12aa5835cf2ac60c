// Which pages are in flight, and which thread carries them: so that a waiter can tell a flight that
// is slow (its source may be a file of a network, or swap) from one that will never land, and can
// sleep until the next one lands. A flight is live while its carrier's thread exists; a thread that
// ends in the middle of a copy (pthread_exit in a signal handler) leaves a dead one.
//
// The state of the pages themselves is the block's (pages/block.h). Any thread; any lock may be
// held.
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
  // The calling thread carries these pages from now on, until it says that they have landed.
  void begun(PageSpan pages) EXCLUDES(lock_);
  void ended(PageSpan pages) EXCLUDES(lock_);
  // Whether a live flight carries some of these pages, and not in the thread `except`, which cannot
  // wait for itself.
  bool is_carried(PageSpan pages, std::uint32_t except = 0) const EXCLUDES(lock_);

  // Wakes those who sleep in wait(): something that they may wait for has ended. landed() does it,
  // too.
  void announce();
  // Seen before looking; wait() returns at once if something was announced since, else at the
  // latest after `limit_ms`.
  std::uint32_t seen() const { return announced_.load(); }
  void wait(std::uint32_t seen, int limit_ms) const;

 private:
  struct InFlightTransfer {
    PageSpan pages;
    std::uint32_t thread;
  };

  std::atomic<std::uint32_t> announced_{0};
  mutable std::atomic<std::uint32_t> sleepers_{0};
  mutable Mutex lock_{LockOrder::in_flight_transfers};
  // Not malloc: threads that answer faults add to it. A flight that finds no memory here is taken
  // for a dead one.
  std::pmr::vector<InFlightTransfer> transfers_ GUARDED_BY(lock_) =
      std::pmr::vector<InFlightTransfer>(&mapped_memory());
};

}  // namespace wherry::impl
