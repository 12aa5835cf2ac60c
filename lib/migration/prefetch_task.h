// Brings the part of a prefetch that lies in one block: one operation after the other, each chosen
// from the page state of that moment. A copier calls advance() until the task is done, and carries
// out the transfers that the task begins. Pages that have had their turn are not brought again.
#pragma once

#include <cstdint>
#include <optional>

#include "base/patience.h"
#include "migration/advice_effects.h"
#include "migration/copiers.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "migration/prefetch_request.h"
#include "pages/address_space.h"
#include "pages/block_directory.h"
#include "pages/stripes.h"

namespace wherry::impl {

// What a prefetcher and its tasks work with. All outlive the copiers.
struct PrefetchParts {
  PageEngine& engine;
  BlockDirectory& blocks;
  const AddressSpace& address_space;
  AdviceEffects& effects;
  Evictor& evictor;
  Copiers& copiers;
};

struct PrefetchLimits {
  // Fewer pages are copied and mapped in one call, under the block's lock: a transfer would cost
  // more than it saves.
  unsigned transfer_pages_min = 1;
  bool host_has_nodes = false;  // several NUMA nodes
  Stripes stripes = {};         // of the pools
};

class PrefetchTask final : public Copiers::Task {
 public:
  // `range`: the request's, cut to the block. `epoch`: the request's.
  PrefetchTask(const PrefetchParts& parts, const PrefetchLimits& limits, PrefetchRequest::Kind kind,
               const PrefetchRequest::Range& range, BlockIndex block, std::uint32_t epoch)
      : parts_(parts), limits_(limits), kind_(kind), range_(range), block_(block), epoch_(epoch) {}

  BlockIndex block() const { return block_; }
  Processor to() const { return range_.to.processor(); }
  // Whether the destination has no space, and nothing can be evicted.
  bool is_stuck() const { return stuck_; }

  Copiers::TaskState advance(Copiers::AnyTransfer& begun) override;
  void complete_transfer(const TransferResult& outcome) override;
  void cancel_transfer() override;

 private:
  using State = Copiers::TaskState;

  PageRun run() const { return run_in_block(block_, range_.pages); }

  // Does the next operation, or begins its transfer. `pages_needed`: set to the number of pages
  // that must be reserved before it.
  State advance_locked(const LockedBlock& block, std::uint64_t& pages_needed)
      REQUIRES(block.state.lock);
  // Begins the transfer of a block that is read ahead, or ends the task.
  State read_ahead(const LockedBlock& block) REQUIRES(block.state.lock);
  // Returns runnable if `next` is the next operation, waits if it can be chosen only later.
  State choose(const LockedBlock& block, PageTransfer& next) const REQUIRES(block.state.lock);
  State begin_transfer(const LockedBlock& block, const PageTransfer& next)
      REQUIRES(block.state.lock);
  State transfer_now(const LockedBlock& block, PageTransfer next) REQUIRES(block.state.lock);
  State discard(const LockedBlock& block) REQUIRES(block.state.lock);
  // All pages are at the destination: maps them.
  State map_arrived(const LockedBlock& block) REQUIRES(block.state.lock);
  // Reserves the pages without the block's lock.
  State reserve(std::uint64_t pages);
  // Returns waits, or done if the task has waited for too long.
  State wait();
  State give_up();
  // Returns true if the task goes on without these pages, which cannot leave their pool now.
  bool note_refusal(PageRun run, OpStatus status);
  void note_arrival(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);

  const PrefetchParts& parts_;
  const PrefetchLimits& limits_;
  const PrefetchRequest::Kind kind_;
  const PrefetchRequest::Range range_;
  const BlockIndex block_;
  const std::uint32_t epoch_;

  PageTransfer transfer_;  // in flight
  Reservation reservation_;
  PageMask had_turn_;
  bool discarded_ = false;
  bool stuck_ = false;
  // Whether the host's view must change to show the pages, and whether that was done.
  bool wants_view_ = false;
  bool has_view_ = false;
  int failures_ = 0;                       // aborted transfers
  unsigned pages_max_ = pages_per_block;   // there was no space for more pages at a time
  std::optional<Patience> patience_ = {};  // since it first had to wait
};

}  // namespace wherry::impl
