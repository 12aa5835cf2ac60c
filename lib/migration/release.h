// Takes pages out of every pool: memory that is freed, or whose pages the program gives up.
#pragma once

#include "migration/advice_effects.h"
#include "migration/at_rest.h"
#include "migration/page_engine.h"
#include "pages/block_directory.h"

namespace wherry::impl {

// Waits for transfers of the pages. Not for threads that answer faults. Requires: the caller keeps
// the addresses from being given to another allocation.
inline void release_pages(PageEngine& engine, AdviceEffects& effects, BlockDirectory& blocks,
                          PageSpan pages) {
  const InFlightTransfers& transfers = engine.transfers();
  blocks.for_each_used(block_of(pages.first), block_of(pages.end() - 1).next(),
                       [&](BlockIndex index, Block& state) {
                         const PageRun run = run_in_block(index, pages);
                         lock_at_rest(transfers, index, state, run);
                         const LockedBlock block(index, state, std::adopt_lock);
                         engine.release(block, run);
                         effects.released(block, run);
                       });
}

}  // namespace wherry::impl
