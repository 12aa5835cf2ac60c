// The one thing to do for a better answer of the kernel or the sandbox: from what was answered and
// how the machine is set up to a command, or what else to change. No kernel calls but
// read_machine_settings().
#pragma once

#include <optional>
#include <string>

#include "os/process/permissions.h"

namespace wherry::impl {

// As /proc/sys shows them; nothing where this kernel has no such setting.
struct MachineSettings {
  std::optional<int> unprivileged_userfaultfd;  // exists where the kernel has userfaultfd
  std::optional<int> io_uring_disabled;  // exists where a kernel of 6.6 or later has io_uring
};
MachineSettings read_machine_settings();

// For userfaultfd that serves faults inside system calls too; empty where it is permitted.
std::string userfaultfd_remedy(const Permissions& permissions, const MachineSettings& settings);
// Empty where io_uring is permitted.
std::string io_uring_remedy(const Permissions& permissions, const MachineSettings& settings);

}  // namespace wherry::impl
