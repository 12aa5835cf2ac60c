// Which blocks have pages in one device's pool, and which of them should be evicted next: the
// pool's Replacement and its lock. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/lock.h"
#include "os/memory/mapping.h"
#include "policy/replacement.h"

namespace wherry::impl {

class ResidentBlocks {
 public:
  // For all blocks of the arena. Linux commits memory for a block when the block first comes to the
  // pool.
  explicit ResidentBlocks(std::uint64_t blocks)
      : links_(Mapping::zeroed(blocks * sizeof(ReplacementLinks))),
        replacement_({reinterpret_cast<ReplacementLinks*>(links_.data()), blocks}) {}

  // These call the same functions of Replacement.
  void came(BlockIndex block) EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    replacement_.came(block.value);
  }
  void left(BlockIndex block, Replacement::LeftBy how) EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    replacement_.left(block.value, how);
  }
  void accessed(BlockIndex block) EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    replacement_.accessed(block.value);
  }
  void passed_over(BlockIndex block) EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    replacement_.passed_over(block.value);
  }
  std::optional<BlockIndex> victim() const EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    return index_of(replacement_.victim());
  }
  std::optional<BlockIndex> sample() EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    return index_of(replacement_.sample());
  }
  // A page of the run that came last.
  PageIndex last_arrival() const { return last_arrival_.load(std::memory_order_relaxed); }
  void set_last_arrival(PageIndex page) { last_arrival_.store(page, std::memory_order_relaxed); }
  bool is_sampled(BlockIndex block) const EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    return replacement_.is_sampled(block.value);
  }
  std::uint64_t size() const EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    return replacement_.size();
  }

 private:
  static std::optional<BlockIndex> index_of(std::optional<std::uint64_t> block) {
    return block ? std::optional(BlockIndex{*block}) : std::nullopt;
  }

  const Mapping links_;
  std::atomic<PageIndex> last_arrival_{};
  mutable Mutex lock_{LockOrder::pool};
  Replacement replacement_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
