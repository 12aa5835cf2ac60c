// Which pages of the program's own memory exist, and the creation of those that do not.
#pragma once

#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

// Returns the pages of the range that are absent from memory; pages that Linux has swapped out
// count as absent. Returns nothing if a part of the range is not mapped. Any thread.
std::vector<AddressRange> absent_pages(AddressRange range);

// Creates the pages of the range as a write would, without changing contents: absent ones become
// zero pages or are read back from swap. Pages whose memory must not be written stay absent. Waits
// for the program where it handles faults on this memory itself (userfaultfd). Returns 0 or an
// errno: those of touch_pages(), if the memory must not be written, is not mapped, or there is no
// memory. Any thread.
[[nodiscard]] int create_pages(AddressRange range);

}  // namespace wherry::impl
