// Creates pages where somebody decided that they belong.
#pragma once

#include <cstdint>
#include <optional>

#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "pages/block_directory.h"

namespace wherry::impl {

// Creates what is absent of the run at p, evicting others where there is no room. ok: nothing is
// absent any more; incomplete: try again in a moment; no_memory: it will not be had. `room` is p's,
// and what another attempt begins with. Not under a block lock; never waits.
OpStatus create_pages(PageEngine& engine, Evictor& evictor, BlockDirectory& blocks,
                      BlockIndex index, PageRun run, Processor p, Reservation& reservation);

// Takes room for the pages in the first pool that has it, the host's before others; nobody is
// evicted for that. Where managed pages go that are nowhere and find no room where they should be.
// Nothing: no pool has it. Any lock may be held.
std::optional<Processor> find_room(PageEngine& engine, std::uint64_t pages,
                                   Reservation& reservation);

}  // namespace wherry::impl
