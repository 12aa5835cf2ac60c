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
      storage_(Mapping::zeroed(blocks * stride_)),
      used_(Mapping::zeroed(round_up(blocks, 64) / 8)) {}

Block* BlockDirectory::find(std::uint64_t block) const {
  WHERRY_CHECK(block < blocks_, "block {} of {}", block, blocks_);
  const std::uint64_t bit = std::uint64_t{1} << (block % 64);
  // Acquire pairs with the release in at(): who sees the bit sees a constructed block.
  return (word(block).load(std::memory_order_acquire) & bit) != 0 ? place(block) : nullptr;
}

Block& BlockDirectory::at(std::uint64_t block) {
  if (Block* existing = find(block)) return *existing;
  const LockGuard guard(create_lock_);
  if (Block* existing = find(block)) return *existing;
  Block* created = new (place(block)) Block(processors_);
  auto* pages = reinterpret_cast<ProcessorPages*>(created + 1);
  for (int p = 0; p < processors_; ++p) new (pages + p) ProcessorPages();
  word(block).fetch_or(std::uint64_t{1} << (block % 64), std::memory_order_release);
  return *created;
}

std::uint64_t BlockDirectory::next_used(std::uint64_t block, std::uint64_t end) const {
  while (block < end) {
    const std::uint64_t rest = word(block).load(std::memory_order_acquire) >> (block % 64);
    if (rest != 0)
      return std::min<std::uint64_t>(end, block + static_cast<unsigned>(std::countr_zero(rest)));
    block = (block / 64 + 1) * 64;
  }
  return end;
}

}  // namespace wherry::impl
