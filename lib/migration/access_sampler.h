// Makes some accesses to resident pages visible: takes the entry of one page of a block out of the
// device's page table, so that the next touch of it is a fault, which the engine tells the
// replacement of. Only for blocks that the replacement wants to know more about, in batches, and in
// the background.
#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "migration/page_engine.h"
#include "pages/block_directory.h"
#include "trap/view_changer.h"

namespace wherry::impl {

class AccessSampler {
 public:
  // changers[i] is processor i's; they outlive this.
  AccessSampler(PageEngine& engine, BlockDirectory& blocks, std::span<ViewChanger* const> changers);

  // Watches at most `count` of the blocks in p's pool. Takes as long as a command to the device.
  // Never under a lock that a fault needs; one thread.
  void watch(Processor p, std::uint64_t count);

 private:
  // A page of the block that p has mapped from its own pool, and that nobody is working on; none if
  // there is none.
  std::optional<std::uint64_t> choose_page(BlockIndex block, Processor p);

  PageEngine& engine_;
  BlockDirectory& blocks_;
  std::array<ViewChanger*, max_processors> changers_{};
  std::minstd_rand
      random_;  // programs have habits: always the same page of a block could miss what they do
};

}  // namespace wherry::impl
