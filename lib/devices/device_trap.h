// Runs in the device process: turns its accesses to the arena into faults that the host receives,
// and says how its mappings must be made for that. The device's side of Trap (trap.h).
#pragma once

#include <memory>

#include "os/memory/userfaultfd.h"
#include "pages/arena_layout.h"
#include "trap/fault_board.h"
#include "trap/trap.h"

namespace wherry::impl {

class DeviceTrap {
 public:
  virtual ~DeviceTrap() = default;

  // The descriptor by which the host receives faults; see DeviceProcess::take_fault_fd().
  virtual int fd() const = 0;
  // The userfaultfd to register mappings with, for replace_pool_view() and forget_entries(); -1:
  // none.
  virtual int userfaultfd() const = 0;
  // The arena may be accessed from now on. Throws std::system_error.
  virtual void run() = 0;
};

// Traps this process's accesses to its view of the arena. At most one trap in a process. The trap,
// the layout and `board` live as long as the process. Throws std::system_error.
std::unique_ptr<DeviceTrap> make_device_trap(const TrapMode& mode, const ArenaLayout& layout,
                                             FaultBoard& board);

}  // namespace wherry::impl
