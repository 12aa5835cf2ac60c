// Walks spans block by block: locks and page states are per block.
#pragma once

#include "base/page_mask.h"

namespace wherry::impl {

// Calls f(BlockIndex, PageRun) for the part of the span in each block, in order, until f returns
// false. Returns true if f never did.
template <typename F>
bool for_each_run(PageSpan pages, const F& f) {
  for (PageSpan left = pages; !left.empty();) {
    const BlockIndex block = block_of(left.first);
    const PageRun run = run_in_block(block, left);
    if (!f(block, run)) return false;
    left = {left.first + run.count, left.count - run.count};
  }
  return true;
}

}  // namespace wherry::impl
