// All blocks of the arena, found by number without a lock. A block's state is created at its first
// use, and its memory is committed then. The metadata thus grows with the memory that was accessed,
// not with the memory that was allocated.
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

  // Commits memory for the state of these blocks, so that at() cannot fail for them later. Returns
  // false if Linux has no memory.
  [[nodiscard]] bool prepare(BlockIndex first, std::uint64_t count) EXCLUDES(create_lock_);
  // Returns the block; creates it at its first use. Aborts if its memory cannot be committed.
  Block& at(BlockIndex block) EXCLUDES(create_lock_);
  // Returns the block, or nullptr if it was never used (then no pool holds a page of it).
  Block* find(BlockIndex block) const;
  // The first block in use at or after `block`, or `end` if no block before `end` is.
  BlockIndex next_used(BlockIndex block, BlockIndex end) const;
  // Calls visit(BlockIndex, Block&) for every block in use with first <= index < end.
  template <typename Visit>
  void for_each_used(BlockIndex first, BlockIndex end, Visit visit) const {
    for (BlockIndex block = next_used(first, end); block < end;
         block = next_used(block.next(), end))
      visit(block, *find(block));
  }
  // Calls visit(BlockIndex, Block&) for every block in use.
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
  // The first set bit at or after `bit`, or `end` if no bit before `end` is set.
  static std::uint64_t next_set(const Mapping& bitmap, std::uint64_t bit, std::uint64_t end);

  std::uint64_t blocks_;
  int processors_;
  std::size_t stride_;
  Mutex create_lock_{LockOrder::blocks};
  SparseMemory storage_;  // blocks, `stride_` bytes apart; committed under create_lock_
  // One bit for each block, set if the block exists. It is set with release after its construction;
  // pairs with the acquire in find().
  Mapping used_;
  // One bit for each word of used_. Set before the first bit of that word, so that a walk can skip
  // 4096 blocks at once.
  Mapping used_words_;
};

}  // namespace wherry::impl
