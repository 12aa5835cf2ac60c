// Makes room in a device's pool: whole blocks, as the pool's replacement says, move to the host;
// copies of pages that other pools hold, too, are dropped. Called by whoever needs the room, and by
// the background evictor before anybody does; never under a block lock.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "migration/advice_effects.h"
#include "migration/eviction_log.h"
#include "migration/page_engine.h"
#include "pages/block_directory.h"

namespace wherry::impl {

// Fewer pages in a row do not fly, if nobody says otherwise: to begin and end a flight costs as
// much as they do.
inline constexpr unsigned usual_transfer_pages_min = 32;
// As many move under one hold of a block's lock: a fault on another page of the block waits for no
// more.
inline constexpr unsigned eviction_piece_pages = pages_per_region;

// Who needs room in a pool, and what for.
struct RoomRequest {
  Processor at;
  std::uint64_t pages = 0;         // as many in all, with what there is already
  std::uint64_t for_page = 0;      // the page that is to come
  std::uint32_t spared_epoch = 0;  // blocks that were prefetched in this one stay; 0: none does
  bool background = false;         // nobody waits for it
  FaultSlot* waiter = nullptr;     // of the fault that needs the room, see LockedBlock
};

class Evictor {
 public:
  // Fewer pages than `transfer_pages_min` are moved under their block's lock.
  Evictor(PageEngine& engine, BlockDirectory& blocks, AdviceEffects& effects,
          IdleBackends::Make make_copy_backend, unsigned transfer_pages_min)
      : engine_(engine),
        blocks_(blocks),
        effects_(effects),
        backends_(std::move(make_copy_backend)),
        transfer_pages_min_(transfer_pages_min) {}

  // Makes `room` as large as is requested. Never waits. Returns
  //   ok;
  //   incomplete: not now, try again in a moment with the same room, which keeps its place in the
  //   pool's line;
  //   no_memory: the host has no memory for the pages that would have to leave; `room` has been
  //   released;
  //   absent: nothing in the pool may be evicted; `room` has been released.
  OpStatus make_room(const RoomRequest& request, Reservation& reservation);

  // Evicts one block, capacity or not. ok; incomplete: not all of it moved yet, or nothing could,
  // and another call may go on; no_memory: the host has none; absent: nothing may be evicted.
  OpStatus evict_one(const RoomRequest& request);

  // The latest round of prefetching that brought pages to p; 0: none. What it brought is not
  // evicted ahead of need.
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
    no
  };

  // Whether this block, or what is not pinned of it, may leave for this request.
  Verdict may_evict(const LockedBlock& block, const RoomRequest& request) const
      REQUIRES(block.state.lock);
  // Pages of a block that are about to leave for the host.
  struct Leaving {
    InFlightTransfer transfer;
    Reservation reservation;  // there
  };
  // Has p's pages of the block leave. `verdict`: whether they may.
  OpStatus evict_block(BlockIndex index, const RoomRequest& request, Verdict& verdict);
  // What of the block p's pool would lose.
  PageMask pages_leaving(const LockedBlock& block, Processor p) const REQUIRES(block.state.lock);
  // Of `left`: drops what others hold, too; then what comes next of the rest. ok with no pages:
  // nothing is left.
  OpStatus begin(const LockedBlock& block, Processor p, const PageMask& left, Eviction& done,
                 Leaving& next) REQUIRES(block.state.lock);
  // Each moves the pages and says in `done` how many: in flight, while others use the rest of the
  // block.state...
  OpStatus carry_in_flight(BlockIndex index, Block& state, FaultSlot* waiter, Eviction& done,
                           Leaving& leaving) EXCLUDES(state.lock);
  // ... or under the lock.
  OpStatus carry_now(const LockedBlock& block, Eviction& done, Leaving& leaving)
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
