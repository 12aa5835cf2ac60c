// The bookkeeping of pages: the state of a block together with everything that has to change with
// it, which is the policy's memory, each pool's replacement and capacity, and the counters. It
// makes no system call, reads no clock and has no lock. The page engine calls it between system
// calls.
//
// Each function is called under the block's lock. Where Linux takes part, the call follows the
// system call that it describes, and comes before anything that may wake a faulting thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "memory/processor_memory.h"
#include "migration/locked_block.h"
#include "migration/resident_blocks.h"
#include "policy/policy.h"

namespace wherry::impl {

class PageBooks {
 public:
  // `processors[i]` is processor i. `policy` is told what becomes of pages; null if there is none.
  // `activity`: the counters of each block; null if there are none. All outlive this.
  PageBooks(std::span<ProcessorMemory* const> processors, const Policy* policy,
            BlockActivity* activity);

  int processors() const { return count_; }
  ProcessorMemory& at(Processor p) const { return pool(p).memory; }
  // Which blocks have pages in p's pool. Requires: p is a device; the host's pool is where pages
  // are evicted to.
  ResidentBlocks& resident_blocks(Processor p) const { return *pool(p).held; }
  // Whether moved() and copied() need the time, because the policy keeps it.
  bool needs_time() const { return policy_ != nullptr && policy_->remembers(); }

  // Records that p's pool has new pages. Requires: they were absent.
  void created(const LockedBlock& block, PageRun run, Processor p) REQUIRES(block.state.lock);
  // Records that the pages have left the pool of `from` for the pool of `to`. Requires: `from`
  // alone held them. Returns the processors that take pages from each other, if they thrash now and
  // did not before.
  ProcessorMask moved(const LockedBlock& block, PageRun run, Processor from, Processor to,
                      MoveCause cause, std::uint64_t now_ns) REQUIRES(block.state.lock);
  // Records that the pool of `to` has copies of the pages. Requires: no mapping of them is
  // writable, `to` did not hold them, and another pool does. Returns what moved() returns.
  ProcessorMask copied(const LockedBlock& block, PageRun run, Processor to, MoveCause cause,
                       std::uint64_t now_ns) REQUIRES(block.state.lock);
  // Records that p's copies are gone, with every mapping of them. Requires: p held them, and other
  // pools do.
  void dropped(const LockedBlock& block, const PageMask& pages, Processor p, MoveCause cause)
      REQUIRES(block.state.lock);
  // Records that no pool holds the pages any more, and no processor maps them.
  void released(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);
  // Counts a fault in the block. Any thread, without the lock.
  void faulted(BlockIndex block) const {
    if (activity_ != nullptr) count(activity_[block.value].faults);
  }
  // Records that a processor accesses pages of the block in the owner's pool.
  void accessed(const LockedBlock& block, Processor owner) REQUIRES(block.state.lock);

 private:
  struct Pool {
    explicit Pool(ProcessorMemory& its_memory) : memory(its_memory) {
      if (!memory.id.is_host()) held.emplace(memory.blocks.size());
    }

    ProcessorMemory& memory;
    std::optional<ResidentBlocks> held;  // none for the host
  };

  Pool& pool(Processor p) const { return *pools_[static_cast<std::size_t>(p.index)]; }
  void give_back(Processor p, std::uint64_t pages) { at(p).capacity.give_back(pages); }
  // Counts pages that came to a pool, or were evicted.
  void note_activity(BlockIndex block, std::uint64_t pages, MoveCause cause) const;
  ProcessorMask tell_policy(const LockedBlock& block, const Arrival& arrival)
      REQUIRES(block.state.lock);
  // Tell p's ResidentBlocks that pages came, or left. `held_before`: whether p held pages of the
  // block before.
  void note_arrival(const LockedBlock& block, PageRun run, Processor p, bool held_before);
  void note_departure(const LockedBlock& block, Processor p, bool held_before, MoveCause cause)
      REQUIRES(block.state.lock);

  std::array<std::unique_ptr<Pool>, max_processors> pools_;
  const int count_;
  const Policy* const policy_;
  BlockActivity* const activity_;
};

}  // namespace wherry::impl
