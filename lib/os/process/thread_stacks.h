// Where the threads of this process have their stacks, as far as can be told from outside of them.
#pragma once

#include <string_view>
#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

// Ranges, in no order, of this map: the main stack, and those that the C library mapped for its
// threads, with what it keeps of the thread at their end. Of a stack that the program took from
// malloc's heap only that end.
std::vector<AddressRange> thread_stacks(std::string_view map);

}  // namespace wherry::impl
