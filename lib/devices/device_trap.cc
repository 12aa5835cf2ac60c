#include "devices/device_trap.h"

#include <cerrno>
#include <system_error>
#include <thread>

#include "os/memory/mapping.h"
#include "os/process/fork_mark.h"
#include "os/process/poll.h"
#include "os/process/thread.h"
#include "os/signals/access_faults.h"

namespace wherry::impl {
namespace {

// If the program has dropped privileges since cuInit, it may be permitted user mode only. Throws
// std::system_error.
Fd create_permitted(UffdAccess access) {
  try {
    return Userfaultfd::create(access);
  } catch (const std::system_error& error) {
    const int code = error.code().value();
    if (access == UffdAccess::user_mode_only || (code != EPERM && code != EACCES)) throw;
    return Userfaultfd::create(UffdAccess::user_mode_only);
  }
}

// The host registers the arena; Linux does the rest.
class UserfaultfdDeviceTrap final : public DeviceTrap {
 public:
  explicit UserfaultfdDeviceTrap(UffdAccess access) : userfaultfd_(create_permitted(access)) {}

  int fd() const override { return userfaultfd_.get(); }
  int userfaultfd() const override { return userfaultfd_.get(); }
  void run() override {}

 private:
  const Fd userfaultfd_;
};

// Faulting threads post their own faults, and change protection for the host while they wait. One
// more thread changes protection while no thread waits.
// for it, and never waits for a fault itself.
class MprotectDeviceTrap final : public DeviceTrap {
 public:
  MprotectDeviceTrap(const ArenaLayout& layout, FaultBoard& board)
      : layout_(layout), board_(board) {
    of_this_process = this;
    // All addresses: pages may be placed anywhere later.
    claim_access_faults(0, ~std::uintptr_t{0}, on_access_fault);
  }

  int fd() const override { return notifier_.get(); }
  int userfaultfd() const override { return -1; }
  void run() override {
    std::thread([this] {
      name_this_thread("wherry-protect");
      const SignalBlock no_signals;
      change_protection_for_host(board_);
    }).detach();
  }

 private:
  // Signal handlers can reach the trap only through a static variable.
  static inline const MprotectDeviceTrap* of_this_process = nullptr;

  static bool on_access_fault(const AccessFault& fault) {
    const MprotectDeviceTrap& trap = *of_this_process;
    return trap.layout_.page_of(fault.address) && trap.mark_.is_here() &&
           post_fault(trap.board_, trap.notifier_, fault.address, fault.write, FaultLimit::endless);
  }

  const ArenaLayout& layout_;
  FaultBoard& board_;
  const Fd notifier_ = make_semaphore();
  const ForkMark mark_;  // a process that a kernel forks has no arena
};

}  // namespace

std::unique_ptr<DeviceTrap> make_device_trap(const TrapMode& mode, const ArenaLayout& layout,
                                             FaultBoard& board) {
  switch (mode.kind) {
    case TrapKind::mprotect:
      return std::make_unique<MprotectDeviceTrap>(layout, board);
    case TrapKind::userfaultfd:
      break;
  }
  return std::make_unique<UserfaultfdDeviceTrap>(*mode.userfaultfd);
}

}  // namespace wherry::impl
