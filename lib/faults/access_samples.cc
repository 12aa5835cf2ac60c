#include "faults/access_samples.h"

#include <type_traits>

#include "base/page.h"

namespace wherry::impl {

static_assert(std::is_trivially_copyable_v<SampledUse>);

AccessSamples::AccessSamples(std::uint64_t blocks)
    : uses_(Mapping::zeroed(round_up(blocks * sizeof(SampledUse), page_size))) {}

SampledUse& AccessSamples::of(BlockIndex block) const {
  return reinterpret_cast<SampledUse*>(uses_.data())[block.value];
}

bool AccessSamples::note(const LockedBlock& block, Processor user, Processor owner) {
  const bool moves = of(block.index).note(user, owner);
  if (user == owner) {
    in_place_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  misplaced_.fetch_add(1, std::memory_order_relaxed);
  if (!moves)
    suspects_[block.index.value % suspects_.size()].store(block.index.value + 1,
                                                          std::memory_order_relaxed);
  return moves;
}

std::optional<BlockIndex> AccessSamples::take_suspect() {
  for (auto& suspect : suspects_) {
    if (suspect.load(std::memory_order_relaxed) == 0) continue;
    if (const std::uint64_t found = suspect.exchange(0, std::memory_order_relaxed))
      return BlockIndex{found - 1};
  }
  return std::nullopt;
}

}  // namespace wherry::impl
