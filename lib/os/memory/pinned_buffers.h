// Memory of this process that the kernel writes to by itself, at the pages that it had when it was
// given: buffers registered with io_uring. What device drivers pin (RDMA), and requests that are
// under way, Linux does not tell.
#pragma once

#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

// Ranges, in no order.
std::vector<AddressRange> pinned_buffers();

}  // namespace wherry::impl
