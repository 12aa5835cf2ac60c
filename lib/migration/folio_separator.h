// Makes pages leave their pool as whole folios (os/memory/page_frames.h). If a part of a huge page
// is punched, Linux clears that part in place, and whoever holds the huge page (a write with
// O_DIRECT, a pipe after vmsplice(2), io_uring, another process) reads zeros. So before a part of a
// huge page leaves a pool, Linux splits the huge page by a call that keeps its contents
// (MADV_COLD), and the separator looks whether it did. docs/decisions/held-pages.md has the reasons
// and measurements.
//
// Linux splits a folio only if exactly one page table has entries for it. So the separator first
// removes the entries of all others: in the host and in the library's own mappings directly; a
// device's huge entry by a write protection. If one device alone keeps small entries, the split is
// made through its page table, which needs CAP_SYS_NICE. Where the entries cannot be removed, and
// for folios smaller than a huge page, the pages are copied into new frames at the same place
// (PoolFile::rebuild()), and the old frames stay with their holders.
//
// No holder can come between the look and the punch: he needs an entry in a page table, which he
// gets by a fault, and faults wait for the block's lock. For the same reason it does no harm if
// Linux merges the pages again in between: it merges no held pages.
//
// Called under the block's lock. Waits for nobody.
#pragma once

#include <optional>

#include "base/clock.h"
#include "memory/processor_memory.h"
#include "migration/held_blocks.h"
#include "migration/locked_block.h"
#include "migration/operation_recorder.h"
#include "migration/page_entries.h"
#include "pages/advice.h"

namespace wherry::impl {

// What becomes of pages that are a part of a held huge page.
enum class IfHeld {
  stay,   // They stay in their pool for now (OpStatus::held).
  leave,  // They leave it: all pages of the huge page get new frames. What the holder writes is
          // lost.
};

class FolioSeparator {
 public:
  // `pins`: which pages must keep their frames; null: none. `keeps_entries`: true if faults in
  // system calls are not served; then huge entries that had to go are replaced before the block's
  // lock is released. If false, the next fault replaces them. All outlive this.
  FolioSeparator(PageEntries& entries, OperationRecorder& recorder, const AdviceMap* pins,
                 Clock clock, bool keeps_entries)
      : entries_(entries),
        recorder_(recorder),
        pins_(pins),
        clock_(clock),
        keeps_entries_(keeps_entries) {}

  // Why pages leave a pool.
  struct Departure {
    Processor owner;              // whose pool they leave
    std::optional<Processor> to;  // empty: they leave every pool, or other pools have copies
    MoveCause cause = MoveCause::fault;
    IfHeld if_held = IfHeld::stay;
  };
  // After `ok` the pages share no folio with other pages of the owner's pool. held: they do, and
  // somebody holds it, or the consolidator is merging the block; retry_at() says when another
  // attempt makes sense. incomplete: other pages of the block are in flight, or Linux asks to try
  // again, or the consolidator is merging the block and the departure is a prefetch or cannot be
  // put off. no_memory: there is none to copy pages. With any result the contents of all pages, and
  // what each processor may access, are as before; entries may be missing, which costs faults.
  // If the pages are in flight themselves, they have been copied: none is entered, and none becomes
  // writable, because the copy would lack what is written.
  OpStatus separate(const LockedBlock& block, PageRun run, const Departure& departure)
      REQUIRES(block.state.lock);
  // Whether separate() would have to do something for these pages of the owner's pool.
  bool has_work(const LockedBlock& block, PageRun run, Processor owner) const
      REQUIRES(block.state.lock);

  // Removes the entries of pages that were freed and stay all the same, from every page table where
  // that is possible at once.
  void close_held(const LockedBlock& block, const PageMask& pages) REQUIRES(block.state.lock);

  std::uint64_t retry_at(BlockIndex block) const { return held_.retry_at(block); }
  // When the next attempt on some block makes sense; 0: none is known.
  std::uint64_t next_retry() const { return held_.next_retry(clock_()); }
  // Whether a departure that can be put off would be refused without another attempt.
  bool is_held_now(const LockedBlock& block, PageRun run, Processor owner) const
      REQUIRES(block.state.lock);

 private:
  // Whether Linux is making one huge page of the block, and the pages are a part of it: Linux could
  // not split it yet, and a punch would clear the part in place. A whole block may leave.
  bool is_part_of_merge(const LockedBlock& block, PageRun run, Processor owner) const
      REQUIRES(block.state.lock);
  // Whether all pages that the owner's pool lacks are in flight. Some may be in its file already,
  // and Linux may merge the block when the last one has come.
  bool becomes_full(const LockedBlock& block, Processor owner) const REQUIRES(block.state.lock);
  // Counts and records pages that stay in their pool.
  void note_held(const LockedBlock& block, PageRun run, const Departure& departure);
  // Splits the block's huge page. unsupported: there is no way to split it, or to find out.
  OpStatus split(const LockedBlock& block, PageRun run, Processor owner) REQUIRES(block.state.lock);
  OpStatus split_through(const LockedBlock& block, PageRun run, Processor owner, Processor p)
      REQUIRES(block.state.lock);
  OpStatus rebuild(const LockedBlock& block, PageRun run, Processor owner)
      REQUIRES(block.state.lock);
  // Enters the pages of the owner's pool again at every processor whose entries are gone, but for
  // `except` and for huge entries that the next fault replaces.
  void enter_again(const LockedBlock& block, Processor owner, const PageMask& except)
      REQUIRES(block.state.lock);

  PageEntries& entries_;
  OperationRecorder& recorder_;
  const AdviceMap* const pins_;
  const Clock clock_;
  const bool keeps_entries_;
  HeldBlocks held_;
};

}  // namespace wherry::impl
