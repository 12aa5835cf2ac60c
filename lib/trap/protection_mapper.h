// Mapper by page protection. A page that the process may not access looks absent to its threads. A
// page that it may access is in the file that its view shows, and Linux enters it in the page table
// at the first access.
//
// A block is mapped by one entry where the view permits huge entries. Elsewhere huge entries are
// forbidden, because Linux would merge pages in the background, and fill the file's holes with
// zeros (docs/decisions/traps.md). So map_whole() permits them, and the first page of the block
// that leaves takes the permission away, with access to all of the block.
//
// Each change of access may split a mapping, and a process may have only so many. So the mapper
// counts the splits:
// - If the process has used up its budget, the mapper removes access to the whole arena, which is
//   one mapping then. That costs faults, never data.
// - If Linux refuses a change (the program itself has many mappings), the mapper removes access
//   from more and more pages around, until neighbours are alike and merge: the 64 KiB around, then
//   the block, then the arena.
// Either event raises the grain (Mapper::grain()): access comes back in larger units, and is
// removed from larger units first. Otherwise an instruction that needs several pages might never
// have access to all of them at once. When few mappings are used again, the grain falls.
//
// The process may be replaced while other threads use the mapper, as with UserfaultfdMapper. Any
// thread may call; a thread of the host may call all but attach() and detach() in its SIGSEGV
// handler. The calls allocate nothing, and a holder of `lock_` is never interrupted by a handler
// (base/signal_blocking.h).
#pragma once

#include <atomic>
#include <memory>

#include "base/lock.h"
#include "trap/hole_filler.h"
#include "trap/mapper.h"
#include "trap/protector.h"

namespace wherry::impl {

class ProtectionMapper final : public Mapper {
 public:
  // `pool` is the processor's own, and outlives the mapper. `arena_pages`: how many pages the arena
  // has. `mappings_budget`: the most mappings that the process should have; 0: no limit.
  ProtectionMapper(HoleFiller& pool, std::uint64_t arena_pages, std::uint64_t mappings_budget)
      : pool_(pool),
        arena_{{0}, arena_pages},
        budget_(mappings_budget),
        huge_blocks_(Mapping::zeroed(round_up(arena_pages / pages_per_block / 8 + 8, page_size))) {}

  void attach(std::shared_ptr<Protector> protector) EXCLUDES(lock_);
  void detach() EXCLUDES(lock_);

  bool punch_unmaps() const override { return false; }
  unsigned grain() const override;
  OpResult unmap(PageSpan span, FaultSlot* waiter = nullptr) override;
  OpResult copy_protected(PageSpan span, const std::byte* source,
                          FaultSlot* waiter = nullptr) override;
  OpResult zero(PageSpan span, FaultSlot* waiter = nullptr) override;
  OpResult map_resident(PageSpan span, bool write_protected, FaultSlot* waiter = nullptr) override;
  OpResult map_whole(PageSpan block, FaultSlot* waiter = nullptr) override;
  OpResult write_protect(PageSpan span, FaultSlot* waiter = nullptr) override;
  OpResult write_unprotect(PageSpan span, FaultSlot* waiter = nullptr) override;
  OpResult forbid(PageSpan span, PageIndex page) override;
  OpResult hide(PageSpan span) override;
  OpResult wake(PageSpan span) override;
  // Adds changes that were not made by this mapper, and that may have split mappings too.
  void count_others(std::uint64_t changes);

 private:
  // The unit in which pages are treated alike, because the process has few mappings left.
  enum Shortage : unsigned {
    none,  // single pages
    regions,
    blocks,
  };

  OpResult change(PageSpan span, Access access, HugeEntries entries, FaultSlot* waiter)
      EXCLUDES(lock_);
  // Removes access, and forbids huge entries in a block that may have them.
  OpResult close(PageSpan span, FaultSlot* waiter) EXCLUDES(lock_);
  // The word of huge_blocks_ that has the block's bit, and the bit.
  std::atomic_ref<std::uint64_t> huge_word_of(BlockIndex block) const;
  static std::uint64_t huge_bit_of(BlockIndex block) {
    return std::uint64_t{1} << block.value % 64;
  }
  // Accounts for one more change, and keeps the process within its budget.
  void mind_budget(Protector& protector, FaultSlot* waiter);
  // Removes access from more pages around with each step, until the change succeeds. Returns 0 or
  // the last errno.
  int change_in_few_mappings(Protector& protector, PageSpan span, Access access,
                             HugeEntries entries, FaultSlot* waiter);
  // Fills holes of the pool by fill(), then gives access to the pages that arrived.
  template <typename Fill>
  OpResult fill_and_enter(PageSpan span, Access access, FaultSlot* waiter, Fill fill)
      EXCLUDES(lock_);

  HoleFiller& pool_;
  const PageSpan arena_;
  const std::uint64_t budget_;
  // An upper bound of the process's mappings; 0: not counted yet. Used with relaxed order, like
  // shortage_: a race costs only a count, or a raise of the grain.
  std::atomic<std::uint64_t> mappings_{0};
  std::atomic<unsigned> shortage_{none};
  // A bit for each block: set where the view may permit huge entries. Changes under the block's
  // lock.
  const Mapping huge_blocks_;
  SharedMutex lock_{LockOrder::mapper};
  std::shared_ptr<Protector> protector_ GUARDED_BY(lock_);  // null: the process is gone
};

}  // namespace wherry::impl
