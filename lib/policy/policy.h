// What to do on a fault, as a value. A policy sees facts and answers; it makes no system call,
// holds no lock, has no clock, so it runs the same in a test, and may be asked by several threads
// at once.
#pragma once

#include <cstdint>

#include "base/page_mask.h"
#include "base/processor.h"

namespace wherry::impl {

// What is known when processor `toucher` faults on `page` (a page number within its block).
struct FaultFacts {
  Processor toucher;
  unsigned page = 0;
  bool write = false;
  ProcessorMask residents = 0;  // where the page is; 0: nowhere yet
  PageRun allocation;           // the part of the block that belongs to the page's allocation
};

// Where the page should be, and how many of its neighbours go with it. The engine takes those pages
// of `region` that are in the same place as the faulting page now.
struct Decision {
  Processor destination;
  PageRun region;  // contains the faulting page; inside the allocation
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual Decision on_fault(const FaultFacts& facts) const = 0;
};

}  // namespace wherry::impl
