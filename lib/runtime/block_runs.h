// Pages block by block: locks and page states are per block.
#pragma once

#include <cstdint>

#include "base/page.h"

namespace wherry::impl {

// Calls f(number, run) for the part of the span in each block, in order, until f returns false.
// Returns whether it never did.
template <typename F>
bool for_each_run(PageSpan pages, const F& f) {
  for (PageSpan left = pages; !left.empty();) {
    const std::uint64_t number = block_of(left.first);
    const PageRun run = run_in_block(number, left);
    if (!f(number, run)) return false;
    left = {left.first + run.count, left.count - run.count};
  }
  return true;
}

}  // namespace wherry::impl
