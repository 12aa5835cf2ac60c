// Brings memory to the processors that the program names, before they use it. The copiers work on a
// request block by block, while the program goes on.
//
// Memory stays usable meanwhile. A thread that accesses a page in flight waits for that transfer. A
// page whose turn has not come is handled as if there were no request, and its state is read again
// at its turn.
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
#include "pages/stripes.h"

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
    // Fewer pages are copied and mapped in one call, under the block's lock: a transfer would cost
    // more than it saves.
    unsigned transfer_pages_min = 1;
    bool host_has_nodes = false;  // several
    Stripes stripes = {};         // of the pools
  };
  // Outlives the copiers.
  Prefetcher(const Parts& parts, Limits limits) : parts_(parts), limits_(limits) {}

  // Returns at once. A copier calls done() once, when each page has had its turn. Pages for which
  // there is no space, or no memory, stay where they are. No page is brought twice: otherwise two
  // requests could take it from each other for ever.
  void submit(const PrefetchRequest& request, std::function<void()> done);
  // Whether the request is a prefetch that changes nothing: all pages are at their destination, and
  // mapped there. False also if that takes long to find out. Does not wait.
  bool is_done(const PrefetchRequest& request) const;

 private:
  struct Range : PrefetchRange {
    std::uint64_t allocation = 0;  // its id: a later allocation at the same place is not meant
  };
  class PrefetchJob;

  // The part of a range that lies in one block.
  struct BlockPart {
    PrefetchRequest::Kind kind;
    Range range;  // cut to the block
    BlockIndex block;
    std::uint32_t epoch;
    bool discarded = false;
    bool stuck = false;      // there is no space, and nothing can be evicted
    PageMask had_turn = {};  // pages brought; they are not brought again
    // The host's view is to be changed, so that it shows the pages; and that was done.
    bool wants_view = false;
    bool has_view = false;
    int failures = 0;                       // aborted transfers
    unsigned pages_max = pages_per_block;   // there was no space for more pages at a time
    std::optional<Patience> patience = {};  // since it first had to wait

    Processor to() const { return range.to.processor(); }
    PageRun run() const { return run_in_block(block, range.pages); }
  };
  // Brings one block part. Its pages may be in flight.
  class PrefetchTask;
  using TaskState = Copiers::TaskState;
  // The next operation that a block part needs.
  struct Operation {
    TaskState state = TaskState::done;
    PageRun run;
    PageTransfer::Kind kind = PageTransfer::Kind::move;
    Processor from;
  };

  // In which order the blocks of these pages are brought. Requires: not empty.
  StripedOrder order_of(PageSpan pages, Processor to) const;
  // Begins the next operation of the task.
  TaskState advance(PrefetchTask& task);
  // `pages_needed`: set to the number of pages that must be reserved before the next operation.
  TaskState advance_locked(PrefetchTask& task, const LockedBlock& block,
                           std::uint64_t& pages_needed) REQUIRES(block.state.lock);
  // The next operation of a block that is to be brought ahead.
  TaskState read_ahead(PrefetchTask& task, const LockedBlock& block) REQUIRES(block.state.lock);
  Operation next_operation(const BlockPart& part, const LockedBlock& block) const
      REQUIRES(block.state.lock);
  TaskState transfer_now(PrefetchTask& task, const LockedBlock& block, const Operation& next)
      REQUIRES(block.state.lock);
  TaskState discard(BlockPart& part, const LockedBlock& block) REQUIRES(block.state.lock);
  bool is_done(PageSpan pages, Processor to) const;
  // All pages are at the destination: maps them.
  TaskState map_arrived(BlockPart& part, const LockedBlock& block) REQUIRES(block.state.lock);
  // Returns true if the task goes on without these pages, which cannot leave their pool now.
  static bool note_refusal(BlockPart& part, PageRun run, OpStatus status);
  void note_arrival(BlockPart& part, const LockedBlock& block, PageRun run)
      REQUIRES(block.state.lock);
  void complete_transfer(PrefetchTask& task, const TransferResult& outcome);
  static TaskState give_up(BlockPart& part);

  const Parts parts_;
  const Limits limits_;
};

}  // namespace wherry::impl
