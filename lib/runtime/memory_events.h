// Records what the program does with its memory (lib/trace): allocates and frees it, advises,
// prefetches, pins. Each function does nothing unless its kind of event is recorded. Any thread may
// call, with any lock held.
#pragma once

#include <cstdint>

#include "devices/managed_sections.h"
#include "pages/address_space.h"
#include "pages/advice.h"
#include "pages/arena_layout.h"

namespace wherry::impl {

void record_allocation(const ArenaLayout& layout, const Allocation& allocation);
void record_free(std::uintptr_t address, const Allocation& allocation);
// Records that the section's variables have become managed memory in the host's pool.
void record_variables(const ManagedSection& section, const PlacedPages& placed);
void record_advice(const ArenaLayout& layout, PageSpan pages, const AdviceChange& change);
void record_prefetch(const ArenaLayout& layout, PageSpan pages, Location destination);

}  // namespace wherry::impl
