// Makes some accesses to resident pages visible. It removes the entry of one page of a block from
// the device's page table, so that the next access to that page faults, and the engine informs the
// replacement, which chooses blocks to evict. It samples only the blocks that the replacement
// names, in batches, in the background.
#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "migration/page_engine.h"
#include "migration/pin_gate.h"
#include "pages/block_directory.h"
#include "trap/view_changer.h"

namespace wherry::impl {

class AccessSampler {
 public:
  // changers[i] is processor i's; they outlive this.
  AccessSampler(PageEngine& engine, BlockDirectory& blocks, PinGate& pins,
                std::span<ViewChanger* const> changers);

  // Samples at most `count` of the blocks in p's pool. Takes as long as a command to the device, so
  // never call it under a lock that a fault needs. One thread.
  void sample(Processor p, std::uint64_t count);

 private:
  // A page of the block that p has mapped from its own pool, that is not pinned and that no
  // operation is changing; nullopt if there is none.
  std::optional<PageSpan> choose_page(BlockIndex block, Processor p) REQUIRES(pins_.lock);

  PageEngine& engine_;
  BlockDirectory& blocks_;
  PinGate& pins_;
  std::array<ViewChanger*, max_processors> changers_{};
  // Chooses pages: a fixed one of each block could miss accesses that follow a pattern.
  std::minstd_rand random_;
};

}  // namespace wherry::impl
