// Blocks that a pool holds as a whole, but that its processor sees through small page-table entries
// although one huge entry is possible. They wait here for the consolidator
// (migration/consolidator.h) in the order in which they were noted. Also records which block the
// consolidator is merging.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <optional>

#include "base/lock.h"
#include "migration/locked_block.h"
#include "os/memory/mapped_memory.h"
#include "os/process/condition.h"

namespace wherry::impl {

class ScatteredBlocks {
 public:
  // For how long a block waits. A block whose pages leave again within this time is not worth the
  // work.
  static constexpr std::uint64_t calm_ns = 50'000'000;

  struct Noted {
    BlockIndex block;
    std::uint64_t at_ns;
    int attempts;  // how often the consolidator has failed to give the block one entry
  };

  // Until this is called, nothing is noted, because no thread takes the blocks.
  void open() EXCLUDES(lock_);
  // take() returns nullopt from now on.
  void close() EXCLUDES(lock_);

  // Notes the block, if it is not noted yet. Any thread, also in a signal handler. If there is no
  // memory, does nothing.
  void note(const LockedBlock& block, std::uint64_t now_ns, int attempts = 0)
      REQUIRES(block.state.lock) EXCLUDES(lock_);
  // Waits until a block was noted calm_ns ago and now_ns() has reached `earliest_ns`, and removes
  // that block. The caller clears Block::is_noted_as_scattered under the block's lock. One thread.
  std::optional<Noted> take(std::uint64_t earliest_ns) EXCLUDES(lock_);

  // From merge_begins() to merge_ends() Linux makes one huge page of the block in the owner's pool,
  // and no part of it may leave (FolioSeparator). One thread.
  void merge_begins(const LockedBlock& block, Processor owner) REQUIRES(block.state.lock) {
    merging_.store(tag(block, owner), std::memory_order_relaxed);
  }
  void merge_ends(const LockedBlock&) { merging_.store(nothing, std::memory_order_relaxed); }
  bool is_merging(const LockedBlock& block, Processor owner) const REQUIRES(block.state.lock) {
    return merging_.load(std::memory_order_relaxed) == tag(block, owner);
  }

 private:
  static constexpr std::uint64_t nothing = ~std::uint64_t{0};
  static std::uint64_t tag(const LockedBlock& block, Processor owner) {
    return block.index.value * max_processors + static_cast<std::uint64_t>(owner.index);
  }

  // The tag of the block that is being merged. Set and cleared under that block's lock.
  std::atomic<std::uint64_t> merging_ = nothing;
  Mutex lock_{LockOrder::scattered_blocks};
  Condition changed_;
  bool open_ GUARDED_BY(lock_) = false;
  // Threads that resolve a fault add to it, so its memory is not malloc's.
  std::pmr::deque<Noted> noted_ GUARDED_BY(lock_){&mapped_memory()};
};

}  // namespace wherry::impl
