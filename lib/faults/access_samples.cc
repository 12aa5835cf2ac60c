#include "faults/access_samples.h"

#include "base/page.h"

namespace wherry::impl {

AccessSamples::AccessSamples(std::uint64_t blocks)
    : uses_(Mapping::zeroed(round_up(blocks * sizeof(Use), page_size))) {}

AccessSamples::Use& AccessSamples::of(BlockIndex block) const {
  return reinterpret_cast<Use*>(uses_.data())[block.value];
}

bool AccessSamples::note(const LockedBlock& block, Processor user, Processor owner,
                         std::uint64_t allocation) {
  Use& use = of(block.index);
  const auto number = static_cast<std::uint32_t>(allocation);
  if (use.allocation != number) use = {number, {}};
  const bool was_contested = use.sampled.is_contested();
  const bool moves = use.sampled.note(user, owner);
  if (user == owner) return false;
  if (!was_contested) surprises_.fetch_add(1, std::memory_order_relaxed);
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
