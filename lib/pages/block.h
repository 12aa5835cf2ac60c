// The state of one 2 MiB block: which of its pages each processor holds and maps. Everything here
// is guarded by the block's lock and changes only by the named transitions below, which assert what
// they need and what they leave.
//
// A page is in one of these states (every processor sees its own pool at the arena's address):
//   absent      no pool holds it; no page table has an entry
//   owned by p  p's pool holds it; mapped (writable) or not mapped at p, nowhere else
//
//   absent --populated(p)--> owned by p --moved(p, q)--> owned by q --released()--> absent
//   owned by p --mapped(p)--> owned by p, mapped --unmapped(p)--> owned by p, not mapped
#pragma once

#include <cstdint>

#include "base/lock.h"
#include "base/page_mask.h"
#include "base/processor.h"
#include "pages/tenure.h"

namespace wherry::impl {

// One processor's share of a block. Bit i is page i of the block.
struct ProcessorPages {
  PageMask resident;  // set: this processor's pool file holds the page
  PageMask mapped;    // set: this processor's page table may have an entry; cleared: it has none.
                      // Writable if set.
};

// A place in a pool's eviction queue, as block number + 1; 0 is "none".
struct QueueLinks {
  std::uint32_t previous = 0;
  std::uint32_t next = 0;
};

class alignas(64) Block {
 public:
  explicit Block(int processors) : processors_(processors) {}

  Mutex lock;
  Tenures tenures;  // any thread

  // Where the page is: a mask of processors whose pool holds it.
  ProcessorMask residents(unsigned page) const REQUIRES(lock);
  ProcessorMask mappers(unsigned page) const REQUIRES(lock);
  const ProcessorPages& at(Processor p) const REQUIRES(lock) { return pages()[p.index]; }
  // Pages that no pool holds.
  PageMask absent() const REQUIRES(lock);

  // The pages exist now in p's pool and are mapped there, writable. Requires: they were absent.
  void populated(Processor p, PageRun run) REQUIRES(lock);
  // The pages left `from` for `to`, and are mapped there alone, writable. Requires: `from` held
  // them, `to` did not.
  void moved(Processor from, Processor to, PageRun run) REQUIRES(lock);
  // p's page table has entries for the pages. Requires: p holds them.
  void mapped(Processor p, PageRun run) REQUIRES(lock);
  // p's page table is gone, with every entry it had.
  void unmapped(Processor p) REQUIRES(lock);
  // No pool holds the pages any more.
  void released(PageRun run) REQUIRES(lock);

  // Asserts: a page has at most one resident copy, and is mapped only where it is resident.
  void check_invariants() const REQUIRES(lock);

  // Guarded by the lock of processor p's eviction queue, not by this block's.
  QueueLinks& links(Processor p) { return links_[p.index]; }

  static constexpr std::size_t bytes_for(int processors) {
    return sizeof(Block) + static_cast<std::size_t>(processors) * sizeof(ProcessorPages);
  }

 private:
  // The per-processor state follows the block in memory, as many entries as there are processors.
  ProcessorPages* pages() { return reinterpret_cast<ProcessorPages*>(this + 1); }
  const ProcessorPages* pages() const { return reinterpret_cast<const ProcessorPages*>(this + 1); }

  int processors_;
  QueueLinks links_[max_processors];
};

}  // namespace wherry::impl
