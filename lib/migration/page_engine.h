// Carries pages from state to state: the only code that punches pools, in the order that keeps
// every page coherent for threads that never sleep (docs/life-of-a-fault.md). Page-table entries
// are the task of migration/page_entries.h. The engine decides nothing and wakes no thread: the
// fault service wakes threads after these calls.
//
// Every call is made under the block's lock. A call that stops early leaves the pages that it did
// in their new state and the others unchanged, and returns the reason.
#pragma once

#include <span>

#include "base/clock.h"
#include "memory/copy_backend.h"
#include "memory/processor_memory.h"
#include "migration/folio_separator.h"
#include "migration/in_flight_transfers.h"
#include "migration/locked_block.h"
#include "migration/operation_recorder.h"
#include "migration/page_books.h"
#include "migration/page_entries.h"
#include "migration/resident_blocks.h"

namespace wherry::impl {

// Whether pages that come to a pool are mapped at its processor as well.
enum class Entry {
  at_home,  // mapped, if the processor's view shows its own pool
  none,
};

class PageEngine {
 public:
  // `processors[i]` is processor i. `layout`: see OperationRecorder; `policy` and `activity`: see
  // PageBooks; `clock`: gives the time when pages arrive; `pins` and `keeps_entries`: see
  // FolioSeparator. All outlive the engine.
  explicit PageEngine(std::span<ProcessorMemory* const> processors,
                      const ArenaLayout* layout = nullptr, const Policy* policy = nullptr,
                      Clock clock = now_ns, BlockActivity* activity = nullptr,
                      const AdviceMap* pins = nullptr, bool keeps_entries = true);

  // The next four bring the pages of a run to a pool. `reservation` holds at least as many pages of
  // that pool. process_gone: the pages were to be mapped at a processor whose process has ended;
  // nothing has changed. held (migrate): the pages stay for now (FolioSeparator).

  // Creates zero pages at p. Requires: the pages are absent.
  OpResult populate(const LockedBlock& block, PageRun run, Processor p, Reservation& reservation,
                    Entry entry = Entry::at_home, Motive motive = {}) REQUIRES(block.state.lock);
  // Creates pages with these contents at p, not mapped anywhere. Requires: the pages are absent.
  OpResult fill(const LockedBlock& block, PageRun run, Processor p, Reservation& reservation,
                const std::byte* contents) REQUIRES(block.state.lock);
  // Moves pages that `from` alone holds to `to`.
  OpResult migrate(const LockedBlock& block, PageRun run, Processor from, Processor to,
                   Reservation& reservation, Motive motive, Entry entry = Entry::at_home)
      REQUIRES(block.state.lock);
  // Copies pages that `from` holds to `to`, which does not hold them. Then no processor can write
  // them.
  OpResult duplicate(const LockedBlock& block, PageRun run, Processor from, Processor to,
                     Reservation& reservation, Entry entry = Entry::at_home, Motive motive = {})
      REQUIRES(block.state.lock);

  // begin_transfer() and complete_transfer() bring pages to a pool in two steps, between which a
  // copy backend copies the pages without the block's lock. While pages are in flight they can only
  // lose rights, and no other call may concern them.

  // Takes the right to write from every processor. Requires what populate, migrate and duplicate
  // require. ok: the backend may begin. Otherwise nothing has begun. held: the pages stay, see
  // migrate().
  OpStatus begin_transfer(const LockedBlock& block, PageTransfer& transfer)
      REQUIRES(block.state.lock);
  // Call it when the backend has copied the pages. ok: they are in their new pool, and mapped at
  // its processor where `entry` permits that and the processor sees its own pool. Otherwise they
  // cannot leave their old pool now (see migrate()), and the transfer was aborted.
  OpStatus complete_transfer(const LockedBlock& block, const PageTransfer& transfer,
                             const TransferResult& outcome, Reservation& reservation, Entry entry)
      REQUIRES(block.state.lock);
  // Call it when the backend has failed: the pages stay where they were, with their rights.
  void abort_transfer(const LockedBlock& block, const PageTransfer& transfer)
      REQUIRES(block.state.lock);
  // Between begin_byte_transfer() and end_byte_transfer() the calling thread copies bytes from or
  // to pages that stay where they are. The pages count as in flight meanwhile, and lose no rights.
  // Requires: they are not in flight.
  void begin_byte_transfer(const LockedBlock& block, const PageMask& pages)
      REQUIRES(block.state.lock);
  void end_byte_transfer(const LockedBlock& block, const PageMask& pages)
      REQUIRES(block.state.lock);

  // Drops all copies except the keeper's, of each page of the run that the keeper holds. Every
  // processor that maps the keeper's copy can write it then. If another copy is held (pinned pages
  // in its huge page), that one is kept instead. Leaves out pages of which a copy cannot leave now
  // for another reason. The caller checks where the pages are.
  void collapse(const LockedBlock& block, PageRun run, Processor keeper,
                MoveCause cause = MoveCause::fault) REQUIRES(block.state.lock);
  // Drops p's copies. Requires: other pools have copies. Returns the pages that were dropped: all,
  // unless Linux asks to try again or other pages of the block are in flight.
  PageMask drop(const LockedBlock& block, PageRun run, Processor p,
                MoveCause cause = MoveCause::fault) REQUIRES(block.state.lock);
  // Takes the pages out of every pool. Returns the pages that stay in some pool: none, unless they
  // are held (`if_held`), Linux asks to try again, or other pages of the block are in flight. No
  // processor has entries for those that stay, where Linux can remove them at once.
  PageMask release(const LockedBlock& block, PageRun run, IfHeld if_held = IfHeld::leave)
      REQUIRES(block.state.lock);

  // Copies the contents of the run to `into`, the place for its first page. Leaves out absent
  // pages. Other threads may write meanwhile.
  void read(const LockedBlock& block, PageRun run, std::byte* into) const
      REQUIRES(block.state.lock);
  // Takes the right to write the pages from every processor, so that read() and release() can
  // follow. incomplete: not from all; the caller tries again.
  OpStatus freeze(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);

  // Calls PageEntries::map(). If Linux cannot enter pages that have copies (before 6.4), drops
  // copies and returns incomplete.
  OpResult map(const LockedBlock& block, PageRun run, Processor p) REQUIRES(block.state.lock);
  // Call it after PoolFile::merge(): removes the zeros that Linux put in place of pages that left
  // the owner's pool during the merge. Returns false if that is not possible now; the caller tries
  // again.
  bool restore_holes(const LockedBlock& block, Processor owner) REQUIRES(block.state.lock);
  // Records that a processor accesses pages of the block in the owner's pool.
  void note_access(const LockedBlock& block, Processor owner) REQUIRES(block.state.lock);
  // Makes pages that are about to be pinned share no folio with others. See FolioSeparator.
  OpStatus separate(const LockedBlock& block, PageRun run, const FolioSeparator::Departure& why)
      REQUIRES(block.state.lock) {
    return separator_.separate(block, run, why);
  }
  const FolioSeparator& separator() const { return separator_; }
  // Whether some of these pages cannot leave a pool without separate().
  bool must_separate(const LockedBlock& block, const PageMask& pages) const
      REQUIRES(block.state.lock);

  ProcessorMemory& at(Processor p) const { return page_books_.at(p); }
  int processors() const { return page_books_.processors(); }
  Processor table_of(Processor p) const { return at(p).table; }
  // What the processors' page tables show of the pools.
  PageEntries& entries() { return entries_; }
  // The processors that share p's page table, p among them.
  ProcessorMask sharing(Processor p) const;
  // Pages that have copies, one of them in the pool of another processor with p's page table. That
  // table shows one copy of a page, and keeps showing it.
  PageMask shown_copies(const LockedBlock& block, Processor p) const REQUIRES(block.state.lock);
  // The coherent devices: those without a page table of their own.
  ProcessorMask coherent() const { return coherent_; }
  // Other classes, too, record here what they do to pages.
  OperationRecorder& recorder() { return recorder_; }
  const OperationRecorder& recorder() const { return recorder_; }
  InFlightTransfers& transfers() { return transfers_; }
  // Which blocks have pages in p's pool. Requires: p is a device; the host's pool is where pages
  // are evicted to.
  ResidentBlocks& resident_blocks(Processor p) { return page_books_.resident_blocks(p); }
  // Counts a fault in the block.
  void note_fault(BlockIndex block) const { page_books_.faulted(block); }

  // Whether the run is copied to p's pool by write(2), so that it arrives without entries.
  bool is_written(const LockedBlock& block, PageRun run, Processor p) const
      REQUIRES(block.state.lock);
  // Whether the run is a whole block, of which p's pool makes a huge page.
  bool is_huge_page(PageRun run, Processor p) const;

 private:
  // Whether pages that arrive in p's pool are entered in its own page table.
  bool enters(const LockedBlock& block, PageRun run, Processor p, Entry entry) const
      REQUIRES(block.state.lock) {
    return entry == Entry::at_home && table_of(p) == p && block.state.is_home(p, run);
  }
  // The time, if the policy wants to know when pages arrive, else 0.
  std::uint64_t arrival_ns() const;

  template <typename Fill>
  OpResult fill(ProcessorMemory& target, PageSpan span, Fill fill_from) const;
  // Copies the run into the target's pool, mapped write-protected if `entered`.
  OpResult copy(const LockedBlock& block, PageRun run, ProcessorMemory& source,
                ProcessorMemory& target, bool entered) const REQUIRES(block.state.lock);
  // Maps pages that have just come to p's pool, which p's view shows: the whole block by one huge
  // entry if its state permits that. A page that cannot be entered now is entered by the next fault
  // on it.
  void enter_arrived(const LockedBlock& block, PageRun run, Processor p) REQUIRES(block.state.lock);
  // `held`: the pages of the block that the owner's pool holds, including these.
  void punch(ProcessorMemory& owner, PageSpan span, const PageMask& held) const;
  // The bookkeeping of a completed operation. `reservation` pays for the pages.
  void account_creation(const LockedBlock& block, PageRun run, Processor p,
                        Reservation& reservation) REQUIRES(block.state.lock);
  void account_copy(const LockedBlock& block, PageRun run, Processor to, Reservation& reservation)
      REQUIRES(block.state.lock);
  void account_move(const LockedBlock& block, PageRun run, Processor from, Processor to,
                    Reservation& reservation, MoveCause cause) REQUIRES(block.state.lock);
  // Unmaps and punches those of the pages that the owner holds, and returns them, for the caller's
  // bookkeeping. Leaves out pages that cannot leave now.
  PageMask take_out(const LockedBlock& block, const PageMask& pages,
                    const FolioSeparator::Departure& departure) REQUIRES(block.state.lock);

  PageBooks page_books_;
  const ProcessorMask coherent_;
  const Clock clock_;
  OperationRecorder recorder_;
  PageEntries entries_;
  FolioSeparator separator_;
  InFlightTransfers transfers_;
};

}  // namespace wherry::impl
