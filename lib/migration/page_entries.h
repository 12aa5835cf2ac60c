// Changes what processors' page tables show of the pools: enters pages, write-protects them, and
// removes entries, and updates the block's state. Moves no page, and punches no pool.
//
// Every call is made under the block's lock. A call that stops early leaves the entries that it
// changed in their new state and the others unchanged.
#pragma once

#include <optional>

#include "memory/processor_memory.h"
#include "migration/locked_block.h"
#include "migration/operation_recorder.h"
#include "migration/page_books.h"
#include "migration/scattered_blocks.h"

namespace wherry::impl {

// The span without its first `done` pages.
constexpr PageSpan rest_of(PageSpan span, std::uint64_t done) {
  return {span.first + done, span.count - done};
}

class PageEntries {
 public:
  // Both outlive this.
  PageEntries(const PageBooks& books, OperationRecorder& recorder)
      : page_books_(books), recorder_(recorder) {}

  // How often in a row Linux may answer "try again" without progress. Each such answer comes from a
  // concurrent change of the process's mappings, which ends; the limit keeps a bug of Linux from
  // holding the block's lock for ever.
  static constexpr int attempts_max = 8;

  ProcessorMemory& at(Processor p) const { return page_books_.at(p); }
  int processors() const { return page_books_.processors(); }
  Processor table_of(Processor p) const { return at(p).table; }

  // Enters pages in p's page table as its view shows them, writable unless they have copies.
  // Requires: p's view of all of them is the same pool, which holds them. absent: Linux says that
  // the pool does not hold them. incomplete: not all could be entered; the caller looks again.
  // unsupported: Linux cannot enter those that have copies (PageEngine::map()).
  OpResult map(const LockedBlock& block, PageRun run, Processor p) REQUIRES(block.state.lock);
  // Whether Linux had removed p's entry of a page that p has mapped. If so, it is entered again.
  bool was_taken(const LockedBlock& block, unsigned page, Processor p) REQUIRES(block.state.lock);
  // Enters pages of the owner's pool again, at any processor, whose entries Linux has removed
  // although the state calls them mapped, except where one huge entry replaces them. Returns false
  // if Linux was changing a process's mappings: entries may be missing, and the caller repeats the
  // call with is_repeated, which looks at all pages.
  bool restore(const LockedBlock& block, Processor owner, bool is_repeated = false)
      REQUIRES(block.state.lock);

  // Removes p's entries for the pages, where a punch does not remove them (Mapper::punch_unmaps).
  void unmap(const LockedBlock& block, const PageMask& pages, Processor p)
      REQUIRES(block.state.lock);
  // Removes all processors' entries for the owner's pages, where a punch does not remove them.
  void unmap_everywhere(const LockedBlock& block, const PageMask& pages, Processor owner)
      REQUIRES(block.state.lock);
  // Takes the right to write the owner's pages from every processor.
  OpStatus protect(const LockedBlock& block, PageRun run, Processor owner)
      REQUIRES(block.state.lock);
  // Makes the owner's pages ready to leave its pool: no processor can write them, and where a punch
  // does not remove mappings there are none. Otherwise the caller calls allow_writes_if_alone().
  OpStatus close(const LockedBlock& block, PageRun run, Processor owner) REQUIRES(block.state.lock);
  // Lets every processor that maps the owner's pages write them. Requires: they have no copies.
  void allow_writes(const LockedBlock& block, PageRun run, Processor owner)
      REQUIRES(block.state.lock);
  // Calls allow_writes() for those of the pages that have no copies and are not being copied.
  void allow_writes_if_alone(const LockedBlock& block, PageRun run, Processor owner)
      REQUIRES(block.state.lock);

  // If the block's state and p's pool permit it, maps the whole block, by one huge entry if Linux
  // permits that. Otherwise returns false; map() may enter the pages then.
  bool enter_whole(const LockedBlock& block, Processor p) REQUIRES(block.state.lock);
  // Maps a block again that enter_whole() has mapped, after p faulted on a mapped page of it: the
  // mapper may have removed more access than was requested (Mapper::grain).
  bool enter_whole_again(const LockedBlock& block, Processor p) REQUIRES(block.state.lock);
  // Whether enter_whole() or enter_whole_again() may map the block.
  bool may_enter_whole(const LockedBlock& block, Processor p) const REQUIRES(block.state.lock) {
    return is_bare(block, p) || was_entered_whole(block, p);
  }

  // Whether p has mapped the whole block by small entries although one huge entry is possible: the
  // pool that p sees, p's own or a coherent device's, alone holds all of it, and no operation
  // concerns it.
  bool is_scattered(const LockedBlock& block, Processor p) const REQUIRES(block.state.lock);
  // Tells the consolidator (migration/consolidator.h) of the block if it is scattered.
  void note_if_scattered(const LockedBlock& block, Processor p) REQUIRES(block.state.lock);
  ScatteredBlocks& scattered_blocks() { return scattered_blocks_; }
  // Call it before the entries for the block are removed from the owner's page table. Until
  // finish_huge_entry() a fault there enters a huge entry. Returns false if is_scattered() is not
  // true any more.
  bool prepare_huge_entry(const LockedBlock& block, Processor owner) REQUIRES(block.state.lock);
  // Maps the block by one huge entry, or, where Linux refuses, by small ones. Returns false if
  // Linux has refused.
  bool finish_huge_entry(const LockedBlock& block, Processor owner) REQUIRES(block.state.lock);

  // Chooses which of p's entries for the block the caller removes, so that the next access to it
  // faults (faults/usage_sampler.h): all, if one fault brings them back as one huge entry, or else
  // that of the first mapped page from `page` on. Returns nullopt if the block is being changed,
  // has copies, was chosen already, or is not mapped at p.
  std::optional<PageRun> begin_sample(const LockedBlock& block, Processor p, unsigned page)
      REQUIRES(block.state.lock);

 private:
  // The processor whose pool p sees in the whole block, if the two have one page table, that pool
  // alone holds all of the block, and no operation concerns it.
  std::optional<Processor> whole_owner(const LockedBlock& block, Processor p) const
      REQUIRES(block.state.lock);
  // Whether the pool that p sees alone holds the whole block, and p has no entries for it, or the
  // consolidator has removed them, so that enter_whole() can map it.
  bool is_bare(const LockedBlock& block, Processor p) const REQUIRES(block.state.lock);
  bool was_entered_whole(const LockedBlock& block, Processor p) const REQUIRES(block.state.lock);
  void lift_protection(const LockedBlock& block, PageRun run, Processor p) const
      REQUIRES(block.state.lock);
  // was_taken(), and says why the page was not entered.
  OpStatus enter_taken(const LockedBlock& block, unsigned page, Processor p)
      REQUIRES(block.state.lock);
  // Enters pages that p's view shows, all writable or all protected, and updates the page state.
  OpStatus enter(const LockedBlock& block, PageRun run, Processor p, bool writable)
      REQUIRES(block.state.lock);

  const PageBooks& page_books_;
  OperationRecorder& recorder_;
  ScatteredBlocks scattered_blocks_;
};

}  // namespace wherry::impl
