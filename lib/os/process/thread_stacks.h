// Finds the stacks of this process's threads, from what Linux reports about the threads and
// mappings.
#pragma once

#include <string_view>
#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

struct ThreadStack {
  AddressRange pages;  // empty: the program allocated the stack from malloc's heap
  // The pages of the thread control block, at the end of `pages`; for the calling thread also those
  // of errno. Empty for the main thread, whose control block is elsewhere.
  AddressRange control_block;
  bool is_callers = false;
};

// Returns stacks in this map, in no order: the main stack, and those that the C library mapped for
// its threads.
std::vector<ThreadStack> thread_stacks(std::string_view map);

}  // namespace wherry::impl
