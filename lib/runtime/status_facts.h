// The facts on the status board that do not change.
#pragma once

#include "machine/runtime_options.h"
#include "memory/status_board.h"
#include "pages/arena_layout.h"

namespace wherry::impl {

// Throws std::bad_alloc.
StatusFacts status_facts(const RuntimeOptions& options, const ArenaLayout& layout);

}  // namespace wherry::impl
