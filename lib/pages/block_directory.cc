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
  for_each_used(0, blocks_, [](std::uint64_t, Block& block) { block.~Block(); });
}

Block* BlockDirectory::find(std::uint64_t block) const {
  WHERRY_CHECK(block < blocks_, "block {} of {}", block, blocks_);
  const std::uint64_t bit = std::uint64_t{1} << (block % 64);
  // Acquire pairs with the release in at(): a thread that sees the bit sees a constructed block.
  return (word(used_, block).load(std::memory_order_acquire) & bit) != 0 ? place(block) : nullptr;
}

bool BlockDirectory::prepare(std::uint64_t first, std::uint64_t count) {
  const LockGuard guard(create_lock_);
  return storage_.commit(first * stride_, count * stride_) == 0;
}

Block& BlockDirectory::at(std::uint64_t block) {
  if (Block* existing = find(block)) return *existing;
  const LockGuard guard(create_lock_);
  if (Block* existing = find(block)) return *existing;
  const int error = storage_.commit(block * stride_, stride_);
  WHERRY_CHECK(error == 0, "no memory for the state of block {} (errno {})", block, error);
  Block* created = new (place(block)) Block(processors_);
  auto* pages = reinterpret_cast<ProcessorPages*>(created + 1);
  for (int p = 0; p < processors_; ++p) new (pages + p) ProcessorPages();
  // The order matters: a thread that finds the block by its own bit must find it in a walk too,
  // which skips words whose bit in used_words_ is cleared.
  word(used_words_, block / 64)
      .fetch_or(std::uint64_t{1} << (block / 64 % 64), std::memory_order_release);
  word(used_, block).fetch_or(std::uint64_t{1} << (block % 64), std::memory_order_release);
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

std::uint64_t BlockDirectory::next_used(std::uint64_t block, std::uint64_t end) const {
  while (block < end) {
    const std::uint64_t word_end = std::min((block / 64 + 1) * 64, end);
    if (const std::uint64_t found = next_set(used_, block, word_end); found != word_end)
      return found;
    block = next_set(used_words_, block / 64 + 1, (end + 63) / 64) * 64;
  }
  return end;
}

}  // namespace wherry::impl
