// Carries pages from state to state: the only code that calls mappers and punches pools, in the
// order that keeps every page coherent for threads that never sleep (docs/life-of-a-fault.md).
// Decides nothing and wakes nobody: whoever answers a fault wakes, after these calls returned.
//
// Every call is under the block's lock. A call that stops early leaves the pages it did in their
// new state and the others untouched, and says why.
#pragma once

#include <array>
#include <span>

#include "memory/processor_memory.h"
#include "pages/block.h"

namespace wherry::impl {

enum class MoveCause {
  fault,
  eviction,
};

class PageEngine {
 public:
  // `processors[i]` is processor i; they outlive the engine.
  explicit PageEngine(std::span<ProcessorMemory* const> processors);

  // Creates zero pages at p. Requires: the pages are absent; `room` holds as many pages of p's
  // pool.
  OpResult populate(Block& block, std::uint64_t number, PageRun run, Processor p, Room& room)
      REQUIRES(block.lock);

  // Moves pages that `from` owns to `to`. Requires: `room` holds as many pages of the pool of `to`.
  OpResult migrate(Block& block, std::uint64_t number, PageRun run, Processor from, Processor to,
                   Room& room, MoveCause cause) REQUIRES(block.lock);

  // Enters pages that p owns in p's page table, writable.
  OpResult map(Block& block, std::uint64_t number, PageRun run, Processor p) REQUIRES(block.lock);

  // Takes the pages out of every pool.
  void release(Block& block, std::uint64_t number, PageRun run) REQUIRES(block.lock);

  ProcessorMemory& at(Processor p) const { return *processors_[static_cast<unsigned>(p.index)]; }
  int processors() const { return count_; }

 private:
  template <typename Fill>
  OpResult fill(ProcessorMemory& target, PageSpan span, Fill fill_from) const;
  void punch(ProcessorMemory& owner, PageSpan span) const;
  void lift_protection(ProcessorMemory& owner, PageSpan span) const;
  // Keeps the eviction queue of p in step with the block, given whether p held pages of it before.
  void requeue(Block& block, std::uint64_t number, Processor p, bool held_before)
      REQUIRES(block.lock);

  std::array<ProcessorMemory*, max_processors> processors_{};
  int count_;
};

}  // namespace wherry::impl
