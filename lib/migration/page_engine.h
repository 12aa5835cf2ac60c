// Carries pages from state to state: the only code that calls mappers and punches pools, in the
// order that keeps every page coherent for threads that never sleep (docs/life-of-a-fault.md).
// Decides nothing and wakes nobody: whoever answers a fault wakes, after these calls returned.
//
// Every call is under the block's lock. A call that stops early leaves the pages it did in their
// new state and the others untouched, and says why.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "memory/copy_backend.h"
#include "memory/processor_memory.h"
#include "migration/decision_log.h"
#include "migration/held_blocks.h"
#include "migration/in_flight_transfers.h"
#include "pages/arena_layout.h"
#include "pages/block.h"
#include "policy/policy.h"
#include "trace/event.h"

namespace wherry::impl {

// Whether pages that come to a pool are mapped at its processor as well.
enum class Entry {
  at_home,  // where the processor sees its own pool, and goes on to while the block is locked
  none,
};

// Why pages come. With a page that was touched, the others of them are expected to be, too.
struct Motive {
  MoveCause cause;
  std::optional<unsigned> touched;

  Motive(MoveCause c = MoveCause::fault, std::optional<unsigned> page = {})
      : cause(c), touched(page) {}
};

// Pages of a block that a carrier (memory/carrier.h) brings to a pool while the block is not
// locked.
struct InFlightTransfer {
  std::uint64_t number = 0;  // of the block
  PageRun run;
  PageTransfer::Kind kind = PageTransfer::Kind::move;
  Processor from;  // where the pages are; nobody's business if they are created
  Processor to;
  MoveCause cause = MoveCause::prefetch;
  std::uint64_t begun_ns = 0;  // as its event will say; 0: nobody asks

  PageTransfer transfer() const { return {kind, span_of(number, run), from, to}; }
};

class PageEngine {
 public:
  // `processors[i]` is processor i. `layout` says for events where pages are; without one page 0
  // has the address 0. The policy is told what becomes of pages; null: there is none. All outlive
  // the engine.
  explicit PageEngine(std::span<ProcessorMemory* const> processors,
                      const ArenaLayout* layout = nullptr, const Policy* policy = nullptr);

  // The pages of a run come to a pool; `room` holds as many pages of it. If they are to be mapped
  // there and the process is gone, nothing is done (process_gone).

  // Creates zero pages at p. Requires: the pages are absent.
  OpResult populate(Block& block, std::uint64_t number, PageRun run, Processor p,
                    Reservation& reservation, Entry entry = Entry::at_home, Motive motive = {})
      REQUIRES(block.lock);
  // Creates pages with these contents at p, mapped nowhere. Requires: the pages are absent.
  OpResult fill(Block& block, std::uint64_t number, PageRun run, Processor p,
                Reservation& reservation, const std::byte* contents) REQUIRES(block.lock);
  // Moves pages that `from` alone holds to `to`.
  OpResult migrate(Block& block, std::uint64_t number, PageRun run, Processor from, Processor to,
                   Reservation& reservation, Motive motive, Entry entry = Entry::at_home)
      REQUIRES(block.lock);
  // Copies pages that `from` holds to `to`, which does not; nobody may write them any more.
  OpResult duplicate(Block& block, std::uint64_t number, PageRun run, Processor from, Processor to,
                     Reservation& reservation, Entry entry = Entry::at_home, Motive motive = {})
      REQUIRES(block.lock);

  // The same, carried by somebody else between the two calls. While they are in flight the pages
  // lose rights only, and no other call may concern them.

  // From now on nobody may write the pages. Requires of them what populate, migrate and duplicate
  // do. ok: the carrier may begin; otherwise nothing has begun.
  OpStatus begin_transfer(Block& block, InFlightTransfer& transfer) REQUIRES(block.lock);
  // The carrier has delivered: the pages are in their new place, and mapped there where the
  // processor sees its own pool, unless they were evicted.
  void complete_transfer(Block& block, const InFlightTransfer& transfer,
                         const TransferResult& outcome, Reservation& reservation)
      REQUIRES(block.lock);
  // It has failed: all is as it was.
  void abort_transfer(Block& block, const InFlightTransfer& transfer) REQUIRES(block.lock);
  // Pages that stay where they are while the calling thread carries bytes from or to them: they are
  // in flight between the two calls, and lose no rights. Requires: they are not in flight.
  void begin_hold(Block& block, std::uint64_t number, const PageMask& pages) REQUIRES(block.lock);
  void end_hold(Block& block, std::uint64_t number, const PageMask& pages) REQUIRES(block.lock);

  // Leaves the keeper's copy alone of each page of the run that it holds, writable for whoever maps
  // it.
  void collapse(Block& block, std::uint64_t number, PageRun run, Processor keeper,
                MoveCause cause = MoveCause::fault) REQUIRES(block.lock);
  // Takes p's copies away. Requires: others have copies.
  void drop(Block& block, std::uint64_t number, PageRun run, Processor p,
            MoveCause cause = MoveCause::fault) REQUIRES(block.lock);
  // Takes the pages out of every pool.
  void release(Block& block, std::uint64_t number, PageRun run) REQUIRES(block.lock);

  // Enters pages in p's page table as its view shows them, writable unless they have copies.
  // Requires: one pool is in p's view of them all, and holds them. absent: it does not. incomplete:
  // not all of them, or not any more: look again.
  OpResult map(Block& block, std::uint64_t number, PageRun run, Processor p) REQUIRES(block.lock);
  // Takes p's entries for the pages away, where their leaving its view does not see to that by
  // itself.
  void unmap(Block& block, std::uint64_t number, const PageMask& pages, Processor p)
      REQUIRES(block.lock);
  // Whether Linux has taken p's entry of a page that p has mapped; then it has one again.
  bool was_taken(Block& block, std::uint64_t number, unsigned page, Processor p)
      REQUIRES(block.lock);
  // Somebody accesses what the owner's pool holds of the block.
  void note_access(Block& block, std::uint64_t number, Processor owner) REQUIRES(block.lock);
  // Lets whoever maps the owner's pages write them again. Requires: they have no copies.
  void allow_writes(Block& block, std::uint64_t number, PageRun run, Processor owner)
      REQUIRES(block.lock);

  ProcessorMemory& at(Processor p) const { return *processors_[static_cast<unsigned>(p.index)]; }
  int processors() const { return count_; }
  // Where the page is, as events say it. Nothing: it is about to become a variable's, and has no
  // address of the arena yet.
  std::optional<std::uint64_t> address_of(std::uint64_t page) const {
    if (layout_ == nullptr) return page * page_size;
    return layout_->find_address_of(page);
  }
  // What has become of pages, and why: what the engine does to pages that nobody touched it adds
  // itself.
  DecisionLog& decisions() { return decisions_; }
  InFlightTransfers& transfers() { return transfers_; }
  const DecisionLog& decisions() const { return decisions_; }
  // Which blocks have pages in p's pool. Requires: p is a device; the host's pool is where pages
  // are evicted to.
  HeldBlocks& held_by(Processor p) { return *held_[static_cast<unsigned>(p.index)]; }

 private:
  template <typename Fill>
  OpResult fill(ProcessorMemory& target, PageSpan span, Fill fill_from) const;
  // Copies into the pool of `to`, mapped write-protected if `entered`.
  OpResult copy(ProcessorMemory& source, ProcessorMemory& target, PageSpan span,
                bool entered) const;
  // Nobody may write the owner's pages any more.
  OpStatus protect(Block& block, std::uint64_t number, PageRun run, Processor owner)
      REQUIRES(block.lock);
  // ... and where their leaving the pool does not see to it, nobody may access them.
  OpStatus close(Block& block, std::uint64_t number, PageRun run, Processor owner)
      REQUIRES(block.lock);
  // ... those of them that have no copies.
  void allow_writes_if_alone(Block& block, std::uint64_t number, PageRun run, Processor owner)
      REQUIRES(block.lock);
  void lift_protection(ProcessorMemory& owner, PageSpan span) const;
  // Enters all of the block in p's page table by one entry, if its state permits that; or not, and
  // then it is map()'s.
  bool enter_whole(Block& block, std::uint64_t number, Processor p) REQUIRES(block.lock);
  // Enters pages that p's view shows, all writable or none, and says in the books which it did.
  OpStatus enter(Block& block, std::uint64_t number, PageRun run, Processor p, bool writable)
      REQUIRES(block.lock);
  void punch(ProcessorMemory& owner, PageSpan span) const;
  // The books of pages that have left `from` for `to`.
  void account_move(Block& block, std::uint64_t number, PageRun run, Processor from, Processor to,
                    Reservation& reservation, MoveCause cause) REQUIRES(block.lock);
  // ... of pages that have come to a pool, in addition to where they were.
  void account_arrival(Block& block, std::uint64_t number, PageRun run, Processor p,
                       Reservation& reservation, PageTransfer::Kind kind) REQUIRES(block.lock);
  // Punches what p holds of the pages and gives its room back; the books come after.
  PageMask take_out(Block& block, std::uint64_t number, const PageMask& pages, Processor p,
                    MoveCause cause) REQUIRES(block.lock);
  // What an operation did to pages of a block, and when it began. `from` and `to`: nothing, nobody.
  struct OperationRecord {
    EventKind kind;
    Motive motive;
    std::optional<Processor> from;
    std::optional<Processor> to;
    std::uint64_t begun_ns = 0;  // 0: it is a moment
  };
  void record_operation(const OperationRecord& operation, std::uint64_t number, PageRun run);
  // Of a deed that began at `begun_ns`, for one reason.
  void record_part(const OperationRecord& operation, std::uint64_t number, PageRun run,
                   std::uint64_t duration_ns) const;
  // Tell p's HeldBlocks of pages that came, or left, given whether p held any of the block before.
  void note_arrival(std::uint64_t number, PageRun run, Processor p, bool held_before);
  void note_departure(Block& block, std::uint64_t number, Processor p, bool held_before,
                      MoveCause cause = MoveCause::fault) REQUIRES(block.lock);

  void tell_policy(Block& block, std::uint64_t number, Arrival arrival) REQUIRES(block.lock);

  const Policy* const policy_;
  std::array<ProcessorMemory*, max_processors> processors_{};
  std::array<std::optional<HeldBlocks>, max_processors> held_;  // none for the host
  int count_;
  const ArenaLayout* layout_;
  DecisionLog decisions_;
  InFlightTransfers transfers_;
};

}  // namespace wherry::impl
