// Creates pages before their first access, for copies and for memory that never moves.
#pragma once

#include <cstdint>
#include <optional>

#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "pages/block_directory.h"

namespace wherry::impl {

// Creates the absent pages of the run in p's pool, and evicts other pages if the pool is full. ok:
// no page of the run is absent; incomplete: try again in a moment; no_memory: there is no memory
// for them. `reservation` is for p's pool; another attempt continues with it. Not under a block
// lock; never waits.
OpStatus create_pages(PageEngine& engine, Evictor& evictor, BlockDirectory& blocks,
                      BlockIndex index, PageRun run, Processor p, Reservation& reservation);

// Reserves the pages in the first pool that has space, beginning with the host's, without evicting
// anything: for pages that do not exist and whose own destination is full. Returns nullopt if no
// pool has space. The caller may hold any lock.
std::optional<Processor> reserve_anywhere(PageEngine& engine, std::uint64_t pages,
                                          Reservation& reservation);

}  // namespace wherry::impl
