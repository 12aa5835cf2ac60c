// Memory that a forked copy of this program needs in order to run at all: that of its modules, of
// the dynamic loader, and of the calling thread's thread-local variables.
#pragma once

#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

// Returns ranges in no order: the segments of all loaded modules, the dynamic loader's allocations
// at the time when this library was loaded, its list of modules, the calling thread's control block
// and static thread-local variables, and the strings of the command line and the environment.
std::vector<AddressRange> ranges_needed_to_run();

// The code of the C library. Empty if it is not a module of its own.
AddressRange code_of_c_library();

// Undoes, in this process, what the program changed in this code of a module: Linux reads its pages
// anew from the module's file. Requires: no other thread runs.
void undo_changes_of_code(AddressRange code);

// Whether the program uses the C library's malloc, whose heaps os/memory/address_mask.h recognizes.
bool uses_standard_malloc();

// Whether the program contains a sanitizer's runtime: its shadow memory occupies the whole address
// space.
bool runs_under_sanitizer();

}  // namespace wherry::impl
