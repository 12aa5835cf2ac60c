// The state of one 2 MiB block: which of its pages each processor holds, maps and sees. Everything
// here is guarded by the block's lock and changes only by the named transitions below, which assert
// what they need and what they leave.
//
// A page is in one of these states:
//   absent      no pool holds it
//   owned by p  p's pool alone holds it
//   duplicated  several pools hold it, every copy the same, and nobody may write it
//
//   absent --populated(p)--> owned by p --moved(p, q)--> owned by q --released()--> absent
//   owned by p --duplicated(q)--> duplicated --dropped() of all but one--> owned by that one
//
// While a page is in flight (a copy of it is under way that holds no lock) it stays in the state
// that it was in, and only rights may be lost: no transition but transfer_ended() concerns it.
//
// Beside that, for each processor: its view of a page is the pool that its page table would show
// there, its own unless a remote mapping is wanted; and its page table may have an entry.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/lock.h"
#include "base/page_mask.h"
#include "base/processor.h"
#include "os/memory/mapped_memory.h"
#include "pages/block_history.h"
#include "pages/minimum_residency.h"

namespace wherry::impl {

// One processor's share of a block. Bit i is page i of the block.
struct ProcessorPages {
  PageMask resident;         // this processor's pool file holds the page
  PageMask mapped;           // its page table may have an entry; cleared: it has none
  PageMask write_protected;  // ... and no entry of its is writable; cleared: one may be
};

// Which pools one processor sees in a block, where that is not its own everywhere.
struct ProcessorViews {
  PageMask foreign;    // its view of the page is another one's pool
  PageMask switching;  // its view is being changed: it is the old one or the new one
  std::array<PageMask, max_processors> shown;  // of each pool, where foreign
};

class alignas(64) Block {
 public:
  explicit Block(int processors) : processors_(static_cast<ProcessorMask>(processors)) {}

  MutexOf<LockOrder::block> lock;
  // The policy's; null: it remembers nothing.
  std::unique_ptr<BlockHistory> history GUARDED_BY(lock);
  MinimumResidency minimum_residency;  // any thread
  // Which round of prefetching brought pages here that were not accessed since, as far as that is
  // seen; 0: none.
  std::uint32_t prefetched_in GUARDED_BY(lock) = 0;
  // Pools that the block was evicted from as one (Replacement::leaves_as_one), and that nothing of
  // it has come back to. (Bits: with these, and processors_, in one word a block is a thousandth of
  // what it describes.)
  ProcessorMask evicted_from : max_processors GUARDED_BY(lock) = 0;
  // Whose page tables had all of the block by one entry: Linux takes that away as a whole, also
  // where a part is protected.
  ProcessorMask entered_whole : max_processors GUARDED_BY(lock) = 0;

  // Where the page is: a mask of processors whose pool holds it.
  ProcessorMask residents(unsigned page) const REQUIRES(lock);
  ProcessorMask mappers(unsigned page) const REQUIRES(lock);
  ProcessorMask writers(unsigned page) const REQUIRES(lock);
  const ProcessorPages& at(Processor p) const REQUIRES(lock) { return pages()[p.index]; }
  // Pages that no pool holds.
  PageMask absent() const REQUIRES(lock);
  // Pages that another pool than p's holds, too or instead.
  PageMask held_beside(Processor p) const REQUIRES(lock);
  // Whose pool p's view of the page is; the old one while it is being changed.
  Processor view(Processor p, unsigned page) const REQUIRES(lock);
  // Pages of which p's view is the pool of `owner`.
  PageMask viewed(Processor p, Processor owner) const REQUIRES(lock);
  // Pages that p's page table may show to be in the pool of `owner`.
  PageMask mapped_from(Processor p, Processor owner) const REQUIRES(lock) {
    return viewed(p, owner) & at(p).mapped;
  }
  // Pages of which p's view is another pool than its own.
  PageMask foreign(Processor p) const REQUIRES(lock);
  // Pages of which p's view is being changed.
  PageMask switching(Processor p) const REQUIRES(lock);

  // Pages that are in flight.
  const PageMask& in_flight() const REQUIRES(lock) { return in_flight_; }

  // Whether p sees its own pool in the whole run, and goes on to while the lock is held.
  bool is_home(Processor p, PageRun run) const REQUIRES(lock) {
    return (PageMask::of(run) & (foreign(p) | switching(p))).none();
  }

  // The pages exist now in p's pool. Requires: they were absent.
  void populated(Processor p, PageRun run) REQUIRES(lock);
  // The pages left the pool of `from`, and every page table, for the pool of `to`. Requires: `from`
  // alone held them.
  void moved(Processor from, Processor to, PageRun run) REQUIRES(lock);
  // The pool of `to` has copies. Requires: no mapping of the pages is writable, `to` did not hold
  // them, somebody does.
  void duplicated(Processor to, PageRun run) REQUIRES(lock);
  // p's copies are gone, with every mapping of them. Requires: p held them.
  void dropped(Processor p, PageRun run) REQUIRES(lock);
  // p's page table has entries for the pages. Requires: the pool in p's view holds them.
  void mapped(Processor p, PageRun run, bool writable) REQUIRES(lock);
  // p's page table has no entries for the pages any more.
  void unmapped(Processor p, PageRun run) REQUIRES(lock);
  // No entry that p has for the pages is writable.
  void write_protected(Processor p, PageRun run) REQUIRES(lock);
  // ... one may be again. Said before the protection is lifted. Requires: nobody has a second copy.
  void writable(Processor p, PageRun run) REQUIRES(lock);
  // No pool holds the pages any more.
  void released(PageRun run) REQUIRES(lock);

  // A copy of the pages begins that holds no lock. Requires: they are not in flight.
  void transfer_begun(PageRun run) REQUIRES(lock);
  // ... has come to its end, good or bad.
  void transfer_ended(PageRun run) REQUIRES(lock);

  // p's view of the pages is about to be changed. Requires: it is not being changed.
  void switch_begun(Processor p, PageRun run) REQUIRES(lock);
  // It is the pool of `owner` now, with no entries yet.
  void switched(Processor p, PageRun run, Processor owner) REQUIRES(lock);
  // It is what it was.
  void switch_failed(Processor p, PageRun run) REQUIRES(lock);
  // p's process is gone, with every entry and every foreign view that it had.
  void unmapped(Processor p) REQUIRES(lock);

  // Asserts: who maps a page sees a pool that holds it; a page with several copies is writable
  // nowhere.
  void check_invariants() const REQUIRES(lock);

  static constexpr std::size_t bytes_for(int processors) {
    return sizeof(Block) + static_cast<std::size_t>(processors) * sizeof(ProcessorPages);
  }

 private:
  static constexpr PageMask all_pages = PageMask::of({0, pages_per_block});

  // The per-processor state follows the block in memory, as many entries as there are processors.
  ProcessorPages* pages() { return reinterpret_cast<ProcessorPages*>(this + 1); }
  const ProcessorPages* pages() const { return reinterpret_cast<const ProcessorPages*>(this + 1); }
  // p's pool has lost the pages: whoever saw them there has no entry any more.
  void left_pool(Processor p, const PageMask& mask) REQUIRES(lock);
  PageMask duplicates() const REQUIRES(lock);
  void check_at_rest(PageRun run) const REQUIRES(lock);
  ProcessorViews& views_of(Processor p) REQUIRES(lock);
  // Frees what says nothing any more.
  void tidy_views(Processor p) REQUIRES(lock);

  ProcessorMask processors_ : 32 - 2 * max_processors;  // how many
  // Null: p sees its own pool everywhere, and stays so while the lock is held.
  std::array<MappedPtr<ProcessorViews>, max_processors> views_;
  PageMask in_flight_;  // last: aligned, it leaves no hole here
};

}  // namespace wherry::impl
