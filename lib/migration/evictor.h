// Frees pages of a device's pool: whole blocks, which the pool's replacement chooses, move to the
// host; copies of pages that other pools hold, too, are dropped. Called by threads that need the
// space, and by the background evictor ahead of need; never under a block lock.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "migration/advice_effects.h"
#include "migration/eviction_log.h"
#include "migration/page_engine.h"
#include "pages/block_directory.h"

namespace wherry::impl {

// The default of `transfer_pages_min`: beginning and ending a transfer costs as much as copying so
// many pages.
inline constexpr unsigned usual_transfer_pages_min = 32;
// How many pages move while the block's lock is held once: a fault on another page of the block
// waits for no more than these.
inline constexpr unsigned eviction_piece_pages = pages_per_region;

// Pages that are needed in a pool.
struct ReservationRequest {
  Processor at;
  std::uint64_t pages = 0;         // in all, with those that are reserved already
  PageIndex for_page = {};         // the page that is to come
  std::uint32_t spared_epoch = 0;  // blocks prefetched in this epoch are not evicted; 0: no epoch
  bool background = false;         // no thread waits for the pages
  FaultSlot* waiter = nullptr;     // of the fault that needs the pages, see LockedBlock
};

class Evictor {
 public:
  // Runs of fewer pages than `transfer_pages_min` are moved under their block's lock.
  Evictor(PageEngine& engine, BlockDirectory& blocks, AdviceEffects& effects,
          IdleBackends::Make make_copy_backend, unsigned transfer_pages_min)
      : engine_(engine),
        blocks_(blocks),
        effects_(effects),
        backends_(std::move(make_copy_backend)),
        transfer_pages_min_(transfer_pages_min) {}

  // Grows the reservation to the requested number of pages, and evicts other pages for that. Never
  // waits. Returns
  //   ok;
  //   incomplete: not now; try again in a moment with the same reservation, which keeps its place
  //   in the pool's line;
  //   no_memory: the host has no memory for the evicted pages; the reservation has been released;
  //   absent: nothing in the pool may be evicted; the reservation has been released;
  //   held: as absent, but some pages stay only because somebody holds them (FolioSeparator).
  OpStatus reserve(const ReservationRequest& request, Reservation& reservation);

  // Evicts one block, even if the pool has free pages. ok; incomplete: not all of the block has
  // moved, or nothing could move now; another call may continue; no_memory: the host has no memory;
  // absent, held: as for reserve().
  OpStatus evict_one(const ReservationRequest& request);
  // Evicts this block, whatever the pool's replacement would choose, and returns what evict_one()
  // returns. For simulations that follow a recorded run.
  OpStatus evict(BlockIndex block, const ReservationRequest& request);

  // note_round() records the epoch of the latest prefetch to p, latest_round() returns it (0:
  // none). The background evictor spares the pages of that epoch.
  void note_round(Processor p, std::uint32_t epoch) {
    rounds_[static_cast<std::size_t>(p.index)].store(epoch, std::memory_order_relaxed);
  }
  std::uint32_t latest_round(Processor p) const {
    return rounds_[static_cast<std::size_t>(p.index)].load(std::memory_order_relaxed);
  }

  EvictionLog& log() { return log_; }

 private:
  enum class Verdict {
    yes,
    not_now,
    held,  // not while somebody holds its pages
    no
  };

  // Whether the pages of this block that are not pinned may be evicted for this request.
  Verdict may_evict(const LockedBlock& block, const ReservationRequest& request) const
      REQUIRES(block.state.lock);
  // Pages of a block that are about to move to the host.
  struct Leaving {
    PageTransfer transfer;
    Reservation reservation;  // of the host's pool
  };
  // Evicts the pool's pages of the block. Sets `verdict` to whether they may be evicted.
  OpStatus evict_block(BlockIndex index, const ReservationRequest& request, Verdict& verdict);
  // The pages of the block that p's pool would lose.
  PageMask pages_leaving(const LockedBlock& block, Processor p) const REQUIRES(block.state.lock);
  // Drops those pages of `left` that other pools hold, too, and sets `next` to the next run of the
  // other pages. Returns ok with an empty run if none is left.
  OpStatus begin(const LockedBlock& block, Processor p, const PageMask& left, Eviction& done,
                 Leaving& next) REQUIRES(block.state.lock);
  // Both move the pages and add their number to `done`: move_in_flight() while other threads use
  // the rest of the block, move_locked() under the block's lock.
  OpStatus move_in_flight(BlockIndex index, Block& state, FaultSlot* waiter, Eviction& done,
                          Leaving& leaving) EXCLUDES(state.lock);
  OpStatus move_locked(const LockedBlock& block, Eviction& done, Leaving& leaving)
      REQUIRES(block.state.lock);

  void record_eviction(const Eviction& done, std::uint64_t begun_ns) const;

  PageEngine& engine_;
  BlockDirectory& blocks_;
  AdviceEffects& effects_;
  IdleBackends backends_;
  const unsigned transfer_pages_min_;
  std::array<std::atomic<std::uint32_t>, max_processors> rounds_{};
  EvictionLog log_;
};

}  // namespace wherry::impl
