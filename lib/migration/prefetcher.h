// Brings memory to where the program says that it will be used, beside everything else: copiers
// take one block's part of a request after the other.
//
// Memory stays usable meanwhile. Who touches a page in flight waits for that flight; a page whose
// turn has not come is answered as ever, and is looked at anew when it has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/patience.h"
#include "memory/copy_backend.h"
#include "migration/advice_effects.h"
#include "migration/copiers.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "migration/prefetch_request.h"
#include "pages/address_space.h"
#include "pages/advice.h"
#include "pages/block_directory.h"

namespace wherry::impl {

class Prefetcher {
 public:
  struct Parts {
    PageEngine& engine;
    BlockDirectory& blocks;
    const AddressSpace& address_space;
    AdviceEffects& effects;
    Evictor& evictor;
    Copiers& copiers;
  };
  struct Limits {
    // Below this a flight costs more than it saves: pages are copied and mapped in one call, under
    // the lock.
    unsigned transfer_pages_min = 1;
    bool host_has_nodes = false;  // several
  };
  // Outlives the copiers.
  Prefetcher(const Parts& parts, Limits limits) : parts_(parts), limits_(limits) {}

  // Returns at once. done() is called once, by a copier, when each page has had its turn: where
  // there is no room, or no memory, pages stay where they are. No page is brought twice, or two
  // requests could take it from each other for ever.
  void submit(const PrefetchRequest& request, std::function<void()> done);

 private:
  struct Range : PrefetchRange {
    std::uint64_t allocation = 0;  // its id: what comes to lie there later is not meant
  };
  class Task;

  // One block's part of one range.
  struct Step {
    PrefetchRequest::Kind kind;
    Range range;  // only what lies in the block
    BlockIndex block;
    std::uint32_t epoch;
    bool discarded = false;
    bool stuck = false;                     // there is no room, and none can be made
    PageMask had_turn = {};                 // what others take away after that stays with them
    int failures = 0;                       // flights that turned back
    unsigned pages_max = pages_per_block;   // there was no room for more at a time
    std::optional<Patience> patience = {};  // since it was first kept waiting

    Processor to() const { return range.to.processor(); }
    PageRun run() const { return run_in_block(block, range.pages); }
  };
  // A step whose pages may be in flight.
  class TransferTask;
  using Progress = Copiers::Progress;
  // What a step needs next.
  struct Need {
    Progress progress = Progress::done;
    PageRun run;
    PageTransfer::Kind kind = PageTransfer::Kind::move;
    Processor from;
  };

  // Begins what comes next of a step.
  Progress advance(TransferTask& task);
  Progress advance_locked(TransferTask& task, const LockedBlock& block, std::uint64_t& room_needed)
      REQUIRES(block.state.lock);
  Need next_need(const Step& step, const LockedBlock& block) const REQUIRES(block.state.lock);
  Progress carry_now(TransferTask& task, const LockedBlock& block, const Need& need)
      REQUIRES(block.state.lock);
  Progress discard(Step& step, const LockedBlock& block) REQUIRES(block.state.lock);
  // All pages are there: has them mapped.
  Progress settle(const Step& step, const LockedBlock& block) REQUIRES(block.state.lock);
  void note_arrival(Step& step, const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);
  void complete_transfer(TransferTask& task, const TransferResult& outcome);
  static Progress give_up(Step& step);

  const Parts parts_;
  const Limits limits_;
};

}  // namespace wherry::impl
