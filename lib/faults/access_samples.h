// Collects who uses the mapped blocks in the page table that the host and coherent devices share.
// The usage sampler (faults/usage_sampler.h) removes entries; a fault on a page that the page state
// calls mapped is then a sample of an access. The fault service notes the sample here, and learns
// whether the block should move.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "migration/locked_block.h"
#include "os/memory/mapping.h"
#include "pages/sampled_use.h"

namespace wherry::impl {

class AccessSamples {
 public:
  // `blocks`: how many the arena has. Takes memory only for blocks that are sampled. Throws
  // std::system_error.
  explicit AccessSamples(std::uint64_t blocks);

  // The user accessed a sampled page of the block, which is in the owner's pool. `allocation`: the
  // id of the page's allocation; samples of earlier allocations are forgotten. Returns whether the
  // block should move.
  bool note(const LockedBlock& block, Processor user, Processor owner, std::uint64_t allocation)
      REQUIRES(block.state.lock);
  // Adds the time for which the accessing thread waited.
  void note_cost(std::uint64_t ns) { cost_ns_.fetch_add(ns, std::memory_order_relaxed); }

  // Returns a block that a processor other than the owner used lately, to be sampled again soon.
  // Returns each block once, and nullopt if there is none.
  std::optional<BlockIndex> take_suspect();

  // How many samples found a block in another pool than its user's, not counting blocks that
  // several processors are known to use.
  std::uint64_t surprises() const { return surprises_.load(std::memory_order_relaxed); }
  std::uint64_t cost_ns() const { return cost_ns_.load(std::memory_order_relaxed); }

 private:
  struct Use {
    std::uint32_t allocation;  // the lower half of its number
    SampledUse sampled;
  };
  Use& of(BlockIndex block) const;

  const Mapping uses_;  // a Use for each block, guarded by the block's lock
  std::atomic<std::uint64_t> surprises_{0};
  std::atomic<std::uint64_t> cost_ns_{0};
  // The blocks for take_suspect(): their numbers + 1, or 0 in an empty place. A newer one may
  // replace an older one.
  std::array<std::atomic<std::uint64_t>, 64> suspects_{};
};

}  // namespace wherry::impl
