// Takes pages out of every pool: memory that is freed, or whose pages the program gives up.
#pragma once

#include "migration/advice_effects.h"
#include "migration/at_rest.h"
#include "migration/page_engine.h"
#include "pages/block_directory.h"

namespace wherry::impl {

// Waits for transfers of the pages, and of others in the same blocks. Returns true if no pool has
// any of the pages. Otherwise some stay, without page-table entries, because they are held or Linux
// asks to try again, and the caller calls again later. Not for threads that answer faults.
// Requires: the caller keeps the addresses from being given to another allocation.
inline bool release_pages(PageEngine& engine, AdviceEffects& effects, BlockDirectory& blocks,
                          PageSpan pages, IfHeld if_held) {
  const InFlightTransfers& transfers = engine.transfers();
  bool all = true;
  blocks.for_each_used(block_of(pages.first), block_of(pages.end() - 1).next(),
                       [&](BlockIndex index, Block& state) {
                         const PageRun run = run_in_block(index, pages);
                         lock_at_rest(transfers, index, state, {0, pages_per_block});
                         const LockedBlock block(index, state, std::adopt_lock);
                         all = engine.release(block, run, if_held).none() && all;
                         effects.released(block, run);
                       });
  return all;
}

}  // namespace wherry::impl
