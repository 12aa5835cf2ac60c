// All blocks of the arena, found by number without a lock. A block exists from its first use on;
// its memory is committed then, so metadata follows what was touched, not what was allocated.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/lock.h"
#include "os/memory/mapping.h"
#include "os/memory/sparse_memory.h"
#include "pages/block.h"

namespace wherry::impl {

class BlockDirectory {
 public:
  BlockDirectory(std::uint64_t blocks, int processors);
  ~BlockDirectory();

  // Makes bookkeeping memory for these blocks accessible, so that at() of them cannot fail later.
  // False: Linux has none.
  [[nodiscard]] bool prepare(BlockIndex first, std::uint64_t count) EXCLUDES(create_lock_);
  // The block, created if this is its first use. Aborts where prepare() would have failed.
  Block& at(BlockIndex block) EXCLUDES(create_lock_);
  // The block, or nullptr when it was never used (then none of its pages is resident anywhere).
  Block* find(BlockIndex block) const;
  // Calls visit(BlockIndex, Block&) for every block in use from `first` up to, not including,
  // `end`.
  template <typename Visit>
  void for_each_used(BlockIndex first, BlockIndex end, Visit visit) const {
    for (BlockIndex block = next_used(first, end); block < end;
         block = next_used(block.next(), end))
      visit(block, *find(block));
  }
  // As above, for all blocks in use.
  template <typename Visit>
  void for_each_used(Visit visit) const {
    for_each_used({0}, {blocks_}, visit);
  }

  std::uint64_t size() const { return blocks_; }
  std::size_t bytes_per_block() const { return stride_; }

 private:
  Block* place(BlockIndex block) const {
    return reinterpret_cast<Block*>(storage_.data() + block.value * stride_);
  }
  // The word of `bitmap` that holds this bit.
  static std::atomic<std::uint64_t>& word(const Mapping& bitmap, std::uint64_t bit) {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(bitmap.data())[bit / 64];
  }
  // The first set bit at or after `bit`; `end` when there is none before it.
  static std::uint64_t next_set(const Mapping& bitmap, std::uint64_t bit, std::uint64_t end);
  // The first block in use at or after `block`; `end` when there is none before it.
  BlockIndex next_used(BlockIndex block, BlockIndex end) const;

  std::uint64_t blocks_;
  int processors_;
  std::size_t stride_;
  Mutex create_lock_{LockOrder::blocks};
  SparseMemory storage_;  // blocks, `stride_` bytes apart; committed under create_lock_
  Mapping
      used_;  // one bit a block; set (release) after the block was constructed, pairs with find()
  Mapping used_words_;  // one bit a word of used_, set before the first bit there: a walk skips
                        // 4096 blocks at once
};

}  // namespace wherry::impl
