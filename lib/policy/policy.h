// What to do on a fault, as a value. A policy sees facts and answers; it makes no system call,
// holds no lock, has no clock, so it runs the same in a test and in a replay, and may be asked by
// several threads at once, for different blocks.
//
// What the program has advised comes first (policy/advice_rules.h); a policy is asked where that
// leaves room.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/page_mask.h"
#include "base/processor.h"
#include "pages/block_history.h"
#include "trace/event.h"

namespace wherry::impl {

// A policy that has had a fault wait for so long in all is not obeyed any more.
inline constexpr std::uint64_t throttle_limit_ns = 5'000'000'000;

// What is known when processor `toucher` faults on `page` (a page number within its block).
struct FaultFacts {
  Processor faulting_processor;
  BlockIndex block;
  unsigned page = 0;
  int processors = 1;  // how many there are
  bool write = false;
  std::uint64_t now_ns = 0;            // when the fault is looked at
  ProcessorMask residents = 0;         // where the page is; 0: nowhere yet
  bool read_mostly = false;            // advised, and copies are allowed at the moment
  std::optional<Processor> preferred;  // whose memory the program prefers for it
  ProcessorMask accessed_by = 0;       // who wants it mapped wherever it is
  bool pinned = false;                 // it must stay where it is; then it has no copies
  bool is_managed = true;              // false: a device's own memory, which exists only there
  bool evicted =
      false;        // the block was evicted from the toucher's pool as one, and nothing came back
  PageRun stretch;  // the part of the block that is of the same allocation, with the same advice
  PageMask held;    // pages of the block that the toucher's pool holds
  std::uint64_t free_pages =
      0;            // ... and the room there before anything is evicted, also ahead of need
  PageMask mapped;  // pages of the block that the toucher has mapped, wherever they are
  std::uint64_t fault_ns = 0;  // what a fault has cost lately (policy/fault_costs.h)
  std::uint64_t page_ns = 0;   // ... and a page that comes
  unsigned present = 0;        // how many pages of the stretch are somewhere
  unsigned grain = 1;          // at least so many, aligned, should be treated alike at the moment
};

// What a policy has to say. Nothing of something: no opinion.
struct Opinion {
  std::optional<Processor> destination = {};  // whose memory the page should be in
  std::optional<PageRun> region = {};  // what comes along; contains the page, inside the stretch
  std::uint64_t wait_until_ns = 0;     // nothing is done before; then it is asked again. 0: at once
  // The page stays at the destination, where others map it, until `pin_until_ns` (0: for ever):
  // then those who map it elsewhere than at home should fault again, and are asked about.
  bool pins = false;
  bool pin_begins = false;  // it has not stayed there before
  std::uint64_t pin_until_ns = 0;
};

// Why pages move, as it is recorded.
using MoveCause = EventCause;

// Pages of a block that have come to a pool; where they were before they are no more, unless they
// were copied.
struct Arrival {
  PageRun run;
  Processor to;
  MoveCause cause = MoveCause::fault;
  bool is_copy = false;
  std::uint64_t now_ns = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;

  // `history`: the block's; a policy makes one when it has something to remember. Under the block's
  // lock, as all that follows.
  virtual Opinion on_fault(const FaultFacts& facts,
                           std::unique_ptr<BlockHistory>& history) const = 0;
  // Pages have moved, or have a copy. Not called for pages that have just been created. Who takes
  // some of them from each other, if with that they thrash and did not before.
  virtual ProcessorMask on_arrival(const Arrival&, std::unique_ptr<BlockHistory>&) const {
    return 0;
  }
  // The pages are nobody's any more: what becomes of them next has nothing to do with what was.
  virtual void on_release(PageRun, BlockHistory&) const {}
  // Pages that stayed where they were for as long as it was said: from now on they move again.
  // none: there are none.
  virtual PageMask end_temporary_pins(std::uint64_t /*now_ns*/, BlockHistory&) const { return {}; }
  // Whether anything is ever remembered. Where not, a fault may be answered where no memory can be
  // had.
  virtual bool remembers() const { return false; }
};

}  // namespace wherry::impl
