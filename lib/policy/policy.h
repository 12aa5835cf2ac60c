// What to do on a fault, as a value. A policy sees facts and answers; it makes no system call,
// holds no lock, has no clock, so it runs the same in a test, and may be asked by several threads
// at once.
#pragma once

#include <cstdint>
#include <optional>

#include "base/page_mask.h"
#include "base/processor.h"

namespace wherry::impl {

// What is known when processor `toucher` faults on `page` (a page number within its block).
struct FaultFacts {
  Processor toucher;
  unsigned page = 0;
  bool write = false;
  ProcessorMask residents = 0;         // where the page is; 0: nowhere yet
  bool read_mostly = false;            // advised, and copies are allowed at the moment
  std::optional<Processor> preferred;  // whose memory the program prefers for it
  ProcessorMask accessed_by = 0;       // who wants it mapped wherever it is
  bool pinned = false;                 // it must stay where it is; then it has no copies
  bool evicted =
      false;        // most of the block was evicted from the toucher's pool, and nothing came back
  PageRun stretch;  // the part of the block that is of the same allocation, with the same advice
  unsigned present = 0;  // how many pages of the stretch are somewhere
  unsigned grain = 1;    // at least so many, aligned, should be treated alike at the moment
};

// Where the page should be for this access, and how many of its neighbours are treated alike. The
// engine takes those pages of `region` that are in the same place as the faulting page now. Where the
// destination is not the toucher, the toucher maps the page there.
struct Decision {
  Processor destination;
  PageRun region;          // contains the faulting page; inside the stretch
  bool duplicate = false;  // other copies stay
  bool fills = false;      // what of the region is nowhere is created at the destination
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual Decision on_fault(const FaultFacts& facts) const = 0;
};

}  // namespace wherry::impl
