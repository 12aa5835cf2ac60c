// Finds the stacks of this process's threads, from what Linux reports about the threads and
// mappings.
#pragma once

#include <string_view>
#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

// Returns ranges of this map, in no order: the main stack, and the stacks that the C library mapped
// for its threads, with the thread control blocks at their ends. For a stack that the program
// allocated from malloc's heap, only the control block.
std::vector<AddressRange> thread_stacks(std::string_view map);

}  // namespace wherry::impl
