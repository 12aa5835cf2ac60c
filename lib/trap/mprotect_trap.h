// Trap by page protection: an access that is not permitted raises SIGSEGV in the accessing thread,
// whose signal handler reports the fault and waits for the answer (signalled_faults.h). A process
// changes its own protections; a device does so on the host's request (fault_board.h).
#pragma once

#include <memory>

#include "trap/trap.h"

namespace wherry::impl {

std::unique_ptr<Trap> make_mprotect_trap(Trap::Parts parts);
std::unique_ptr<DeviceTrap> make_mprotect_device_trap(DeviceTrap::Parts parts);

}  // namespace wherry::impl
