// Runs in the device: how its own touches of the arena come to be faults that the host hears of,
// and what that asks of its mappings. The device's side of Trap (trap.h).
#pragma once

#include <memory>

#include "os/memory/userfaultfd.h"
#include "pages/arena_layout.h"
#include "trap/fault_board.h"

namespace wherry::impl {

class DeviceTrap {
 public:
  virtual ~DeviceTrap() = default;

  // What the host gets to hear of faults by; see DeviceProcess::take_fault_fd().
  virtual int fd() const = 0;
  // With which mappings are registered, as replace_pool_view and forget_entries have it; -1: none.
  virtual int userfaultfd() const = 0;
  // The arena may be touched from now on. Throws std::system_error.
  virtual void run() = 0;
};

// Traps what this process touches of its view of the arena. At most one in a process; it, the
// layout and `board` live as long as that. Throws std::system_error.
std::unique_ptr<DeviceTrap> make_device_trap(UffdAccess access, const ArenaLayout& layout,
                                             FaultBoard& board);

}  // namespace wherry::impl
