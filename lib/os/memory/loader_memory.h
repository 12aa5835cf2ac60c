// What a forked copy of this program needs in order to run at all: the memory of its modules, of
// the dynamic loader, and of the calling thread's thread-local variables.
#pragma once

#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

// Ranges, in no order: the segments of all loaded modules, what the dynamic loader had allocated
// when this library was loaded, its list of modules, the calling thread's control block and static
// thread-local variables, and the strings of the command line and the environment.
std::vector<AddressRange> ranges_needed_to_run();

// Whether the C library's own malloc serves this program, whose heaps os/memory/address_mask.h
// knows.
bool uses_standard_malloc();

// Whether a sanitizer's runtime is in this program: its shadow memory takes all address space.
bool runs_under_sanitizer();

}  // namespace wherry::impl
