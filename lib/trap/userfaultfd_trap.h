// Trap by userfaultfd, one for each process. A device process creates its own and sends it to the
// host, which registers the arena with it, reads its messages and changes its page table. So the
// faulting threads only sleep, and the device process does nothing itself.
//
// With TrapKind::userfaultfd the host's threads sleep, too. With TrapKind::sigbus they get SIGBUS,
// and their signal handler deals with the fault (trap/signalled_faults.h).
#pragma once

#include <memory>

#include "trap/trap.h"

namespace wherry::impl {

std::unique_ptr<Trap> make_userfaultfd_trap(Trap::Parts parts);
std::unique_ptr<DeviceTrap> make_userfaultfd_device_trap(DeviceTrap::Parts parts);

}  // namespace wherry::impl
