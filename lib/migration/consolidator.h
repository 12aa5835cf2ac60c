// Gives whole blocks that came in parts one huge page and one huge page-table entry, in the
// background. Random accesses to them are up to 1.6 times as fast then, because the CPU keeps the
// translation of 2 MiB instead of 4 KiB in each of its entries.
//
// A block is due 50 ms after its last part came, if it is still scattered
// (PageEntries::is_scattered). The thread uses at most 1 % of the machine's CPU time, and none
// while no block is due. It ends if Linux turns out to enter no huge page (before 6.14 the old page
// table is in the way).
//
// No step needs the program's threads to wait: Linux merges the pages while threads access them,
// and a thread that faults after the entries were removed enters the huge page itself.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>

#include "base/time_allowance.h"
#include "migration/page_engine.h"
#include "migration/pin_gate.h"
#include "pages/block_directory.h"
#include "trap/view_changer.h"

namespace wherry::impl {

class Consolidator {
 public:
  // changers[i] is processor i's; `cpus`: how many CPUs the process may use. All outlive this.
  Consolidator(PageEngine& engine, BlockDirectory& blocks, PinGate& pins,
               std::span<ViewChanger* const> changers, unsigned cpus);
  // Waits until the thread is done with its block.
  ~Consolidator();
  // Starts the thread. Call it once.
  void start();

  // Tries to give the block one huge page-table entry. `attempts`: how many have failed. If the
  // block still has small entries then, notes it for another attempt, unless that was its last one.
  // Returns false if Linux has refused to enter a huge page. For the thread and for tests.
  bool consolidate(BlockIndex index, int attempts = 0);
  // Several attempts, because obstacles often last for a moment only: a page that a CPU has in its
  // lists, a page that is pinned or in flight.
  static constexpr int attempts_max = 5;

 private:
  void work();
  // merge() and enter() hold pins_.lock, so that no page of the block is pinned meanwhile; blocks
  // with pinned pages are left alone. A merge keeps the contents, also while threads write. Linux
  // refuses it while pages of the block are in use elsewhere, or if no huge page is free.
  enum class Merged {
    yes,
    refused,
    not_wanted
  };
  Merged merge(BlockIndex index, Processor& owner) EXCLUDES(pins_.lock);
  // The processor that holds the block, if small entries map it where one huge entry is possible.
  std::optional<Processor> scattered_at(const LockedBlock& block) const REQUIRES(block.state.lock);
  // `merged`: whether the block has one huge page. is_restored: whether all processors have their
  // entries again. Returns false if Linux refused a huge entry.
  bool enter(BlockIndex index, Processor owner, bool merged, bool& is_restored)
      EXCLUDES(pins_.lock);
  bool attempt(BlockIndex index) EXCLUDES(pins_.lock);

  PageEngine& engine_;
  BlockDirectory& blocks_;
  PinGate& pins_;
  std::array<ViewChanger*, max_processors> changers_{};
  TimeAllowance allowance_;
  std::thread thread_;
};

}  // namespace wherry::impl
