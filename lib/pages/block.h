// The state of one 2 MiB block: which of its pages each processor holds, maps and views. The
// block's lock guards everything here. The state changes only by the named transitions below, which
// assert their preconditions and results.
//
// A page is in one of these states:
//   absent      no pool holds it
//   owned by p  p's pool alone holds it
//   duplicated  several pools hold it, every copy is the same, and no mapping of it is writable
//
//   absent --populated(p)--> owned by p --moved(p, q)--> owned by q --released()--> absent
//   owned by p --duplicated(q)--> duplicated --dropped() of all but one--> owned by that one
//
// While a page is in flight, it is being copied and the lock is not held. It then keeps its state,
// and its mappings can only lose rights. No other transition than transfer_ended() is allowed for
// it.
//
// In addition, for each processor: its view of a page is the pool that its page table would show
// there. That is its own pool unless a remote mapping is wanted. Its page table may or may not have
// an entry for the page.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/page_mask.h"
#include "base/processor.h"
#include "os/memory/mapped_memory.h"
#include "os/process/fair_lock.h"
#include "pages/block_history.h"
#include "pages/minimum_residency.h"

namespace wherry::impl {

// One processor's share of a block. Bit i is page i of the block.
struct ProcessorPages {
  PageMask resident;         // this processor's pool file holds the page
  PageMask mapped;           // set: its page table may have an entry; cleared: it has none
  PageMask write_protected;  // set: its entry is not writable; cleared: it may be
};

// The views of one processor in a block in which some view is not its own pool.
struct ProcessorViews {
  PageMask foreign;    // set: its view of the page is another processor's pool
  PageMask switching;  // set: its view is being changed; it is the old or the new one
  // shown[q]: pages whose view is q's pool; a subset of foreign.
  std::array<PageMask, max_processors> shown;
};

class alignas(64) Block {
 public:
  explicit Block(int processors) : processors_(static_cast<ProcessorMask>(processors)) {}

  FairMutexOf<LockOrder::block> lock;
  // Owned by the policy; null if the policy remembers nothing of this block.
  std::unique_ptr<BlockHistory> history GUARDED_BY(lock);
  MinimumResidency minimum_residency;  // has its own synchronization
  // The epoch of the prefetch that brought pages here without a visible access to them since, or 0.
  std::uint32_t prefetched_in GUARDED_BY(lock) = 0;
  // Pools from which the block was evicted as a whole (Replacement::leaves_as_one) and to which
  // none of its pages has come back. The bit fields share a word with processors_, which keeps the
  // size of a block's state at a thousandth of the memory that it describes.
  ProcessorMask evicted_from : max_processors GUARDED_BY(lock) = 0;
  // Processors whose page tables got one huge entry for the whole block, of which pages are still
  // mapped. Linux removes such an entry as a whole, even where only a part of it is protected.
  ProcessorMask entered_whole : max_processors GUARDED_BY(lock) = 0;
  // Processors whose entries the consolidator or the usage sampler is removing or has removed. At
  // the next fault one huge entry replaces them.
  ProcessorMask to_enter_whole : max_processors GUARDED_BY(lock) = 0;
  // The block waits for the consolidator (migration/scattered_blocks.h).
  bool is_noted_as_scattered : 1 GUARDED_BY(lock) = false;

  // The processors whose pools hold the page.
  ProcessorMask residents(unsigned page) const REQUIRES(lock);
  // The processors whose page tables may have an entry for the page; and those whose entry may be
  // writable.
  ProcessorMask mappers(unsigned page) const REQUIRES(lock);
  ProcessorMask writers(unsigned page) const REQUIRES(lock);
  const ProcessorPages& at(Processor p) const REQUIRES(lock) { return pages()[p.index]; }
  // Pages that no pool holds.
  PageMask absent() const REQUIRES(lock);
  // Pages that a pool other than p's holds, whether or not p's holds them too.
  PageMask resident_beside(Processor p) const REQUIRES(lock);
  // The processor whose pool is p's view of the page; the old pool's while the view is being
  // changed.
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

  // Whether p's own pool is its view of the whole run, and remains so while the lock is held.
  bool is_home(Processor p, PageRun run) const REQUIRES(lock) {
    return (PageMask::of(run) & (foreign(p) | switching(p))).none();
  }

  // The pages were created in p's pool. Requires: they were absent.
  void populated(Processor p, PageRun run) REQUIRES(lock);
  // The pages left the pool of `from` and every page table, and are now in the pool of `to`.
  // Requires: `from` alone held them.
  void moved(Processor from, Processor to, PageRun run) REQUIRES(lock);
  // The pool of `to` got copies. Requires: no mapping of the pages is writable, another pool holds
  // them, and `to` did not hold them.
  void duplicated(Processor to, PageRun run) REQUIRES(lock);
  // p's copies were removed, and every mapping of them. Requires: p held them.
  void dropped(Processor p, PageRun run) REQUIRES(lock);
  // p's page table got entries for the pages. Requires: the pool in p's view holds them.
  void mapped(Processor p, PageRun run, bool writable) REQUIRES(lock);
  // p's page table no longer has entries for the pages.
  void unmapped(Processor p, PageRun run) REQUIRES(lock);
  // p's entries for the pages are no longer writable.
  void write_protected(Processor p, PageRun run) REQUIRES(lock);
  // p's entries may be writable again. Called before the protection is lifted. Requires: the pages
  // have no second copy.
  void writable(Processor p, PageRun run) REQUIRES(lock);
  // The pages were removed from every pool.
  void released(PageRun run) REQUIRES(lock);

  // A copy of the pages begins, during which the lock is not held. Requires: the pages are not in
  // flight.
  void transfer_begun(PageRun run) REQUIRES(lock);
  // The copy has ended, successfully or not.
  void transfer_ended(PageRun run) REQUIRES(lock);

  // p's view of the pages is about to be changed. Requires: it is not being changed.
  void switch_begun(Processor p, PageRun run) REQUIRES(lock);
  // p's view is the pool of `owner` now, with no entries yet.
  void switched(Processor p, PageRun run, Processor owner) REQUIRES(lock);
  // p's view was not changed.
  void switch_failed(Processor p, PageRun run) REQUIRES(lock);
  // p's process has ended. It has no entries and no foreign views any more.
  void unmapped(Processor p) REQUIRES(lock);

  // Asserts: each entry shows a pool that holds the page; no page with several copies is writable.
  void check_invariants() const REQUIRES(lock);

  static constexpr std::size_t bytes_for(int processors) {
    return sizeof(Block) + static_cast<std::size_t>(processors) * sizeof(ProcessorPages);
  }

 private:
  static constexpr PageMask all_pages = PageMask::of({0, pages_per_block});

  // The per-processor state follows the block in memory, one entry for each processor.
  ProcessorPages* pages() { return reinterpret_cast<ProcessorPages*>(this + 1); }
  const ProcessorPages* pages() const { return reinterpret_cast<const ProcessorPages*>(this + 1); }
  // p's pool has lost the pages: processors whose view of them is p's pool have no entries any
  // more.
  void left_pool(Processor p, const PageMask& mask) REQUIRES(lock);
  void lose_entries(Processor p, const PageMask& mask) REQUIRES(lock);
  PageMask duplicates() const REQUIRES(lock);
  void check_at_rest(PageRun run) const REQUIRES(lock);
  ProcessorViews& views_of(Processor p) REQUIRES(lock);
  // Frees p's views if no view is foreign or being changed.
  void tidy_views(Processor p) REQUIRES(lock);

  ProcessorMask processors_ : 31 - 3 * max_processors;  // the number of processors
  // If views_[p] is null, p's views are its own pool everywhere, and stay so while the lock is
  // held.
  std::array<MappedPtr<ProcessorViews>, max_processors> views_;
  PageMask in_flight_;  // last, because its alignment would leave a hole elsewhere
};

}  // namespace wherry::impl
