#include "pages/block_directory.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/check.h"

namespace wherry::impl {

BlockDirectory::BlockDirectory(std::uint64_t blocks, int processors)
    : blocks_(blocks),
      processors_(processors),
      stride_(Block::bytes_for(processors)),
      storage_(blocks * stride_),
      used_(Mapping::zeroed(round_up(blocks, 64) / 8)),
      used_words_(Mapping::zeroed(round_up(round_up(blocks, 64) / 64, 64) / 8)) {}

BlockDirectory::~BlockDirectory() {
  for_each_used([](BlockIndex, Block& block) { block.~Block(); });
}

Block* BlockDirectory::find(BlockIndex block) const {
  WHERRY_CHECK(block.value < blocks_, "block {} of {}", block.value, blocks_);
  const std::uint64_t bit = std::uint64_t{1} << (block.value % 64);
  // Acquire pairs with the release in at(): a thread that sees the bit sees a constructed block.
  return (word(used_, block.value).load(std::memory_order_acquire) & bit) != 0 ? place(block)
                                                                               : nullptr;
}

bool BlockDirectory::prepare(BlockIndex first, std::uint64_t count) {
  const LockGuard guard(create_lock_);
  return storage_.commit(first.value * stride_, count * stride_) == 0;
}

Block& BlockDirectory::at(BlockIndex block) {
  if (Block* existing = find(block)) return *existing;
  const LockGuard guard(create_lock_);
  if (Block* existing = find(block)) return *existing;
  const int error = storage_.commit(block.value * stride_, stride_);
  WHERRY_CHECK(error == 0, "no memory for the bookkeeping of block {} (errno {})", block.value,
               error);
  Block* created = new (place(block)) Block(processors_);
  auto* pages = reinterpret_cast<ProcessorPages*>(created + 1);
  for (int p = 0; p < processors_; ++p) new (pages + p) ProcessorPages();
  // The bits are set in this order, so that walks see the word's bit when find() sees the block's.
  const std::uint64_t bit = block.value;
  word(used_words_, bit / 64)
      .fetch_or(std::uint64_t{1} << (bit / 64 % 64), std::memory_order_release);
  word(used_, bit).fetch_or(std::uint64_t{1} << (bit % 64), std::memory_order_release);
  return *created;
}

std::uint64_t BlockDirectory::next_set(const Mapping& bitmap, std::uint64_t bit,
                                       std::uint64_t end) {
  while (bit < end) {
    const std::uint64_t rest = word(bitmap, bit).load(std::memory_order_acquire) >> (bit % 64);
    if (rest != 0)
      return std::min<std::uint64_t>(end, bit + static_cast<unsigned>(std::countr_zero(rest)));
    bit = (bit / 64 + 1) * 64;
  }
  return end;
}

BlockIndex BlockDirectory::next_used(BlockIndex from, BlockIndex to) const {
  const std::uint64_t end = to.value;
  std::uint64_t block = from.value;
  while (block < end) {
    const std::uint64_t word_end = std::min((block / 64 + 1) * 64, end);
    if (const std::uint64_t found = next_set(used_, block, word_end); found != word_end)
      return {found};
    block = next_set(used_words_, block / 64 + 1, (end + 63) / 64) * 64;
  }
  return to;
}

}  // namespace wherry::impl
