// Managed pages that the program pins (wherryPinPages): they all exist, in one copy each, and stay
// in the pool where they are, so that third parties may read and write them there.
//
// Any thread may call. pin() holds ProgramAdvice's lock shared to the end, so that the allocation
// stays live; it may wait for pages that are in flight, and evicts other pages to create absent
// ones.
#pragma once

#include <cstdint>
#include <vector>

#include "base/page.h"
#include "migration/advice_effects.h"
#include "migration/page_engine.h"
#include "migration/pin_gate.h"
#include "pages/arena_layout.h"
#include "pages/block_directory.h"
#include "runtime/managed_heap.h"
#include "runtime/processor_pools.h"
#include "runtime/program_advice.h"

namespace wherry::impl {

class Pinning {
 public:
  // All outlive this.
  struct Parts {
    const ProcessorPools& pools;
    const ArenaLayout& layout;
    BlockDirectory& blocks;
    PageEngine& engine;
    AdviceEffects& effects;
    ProgramAdvice& advice;
    ManagedHeap& heap;
    PinGate& gate;
  };

  explicit Pinning(const Parts& parts) : parts_(parts) {}

  enum class Result {
    pinned,
    not_managed,  // the pages are not, or no longer, part of one live managed allocation
    no_space,     // some pages were absent and do not fit
  };
  // Pins the pages until unpin(), each where it is; absent ones are created. Nothing has changed
  // unless the result is pinned, except that some absent pages may exist. `fresh`, if not null,
  // becomes the pages that were not pinned before. Throws std::bad_alloc.
  Result pin(PageSpan pages, std::vector<PageSpan>* fresh = nullptr) EXCLUDES(parts_.advice.lock);
  // Lets the pages move again. Returns false if they are not managed.
  bool unpin(PageSpan pages) EXCLUDES(parts_.advice.lock);

  // A run of pages in one pool's file, at their offsets.
  struct Extent {
    PageSpan pages;
    int fd;
  };
  // The files that hold the pages, in order. Requires: all pages exist and cannot move.
  std::vector<Extent> locate(PageSpan pages) const;

 private:
  // Splits huge pages that contain some of these pages and others, where that is possible at once,
  // so that the others can move while third parties hold the pinned ones.
  void separate(PageSpan pages) REQUIRES_SHARED(parts_.advice.lock);
  // Leaves one copy of each pinned page, and creates the absent ones where an access of the host
  // would create them. Returns false if they do not fit.
  bool settle(PageSpan pages) REQUIRES_SHARED(parts_.advice.lock);
  // Leaves one copy of each page of the run. Returns false, and does nothing, if some are in
  // flight.
  bool collapse(BlockIndex block, PageRun run);

  const Parts parts_;
};

}  // namespace wherry::impl
