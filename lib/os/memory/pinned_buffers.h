// Memory of this process to which Linux writes directly, at the physical pages it had when it
// was registered: buffers registered with io_uring. Linux does not list memory that device drivers
// pin (RDMA), or memory of requests in progress.
#pragma once

#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

// Returns ranges in no order. Waits up to 0.1 s for each ring that threads use. If Linux does not
// list the ring's buffers then, the result contains the whole address space.
std::vector<AddressRange> pinned_buffers();

}  // namespace wherry::impl
