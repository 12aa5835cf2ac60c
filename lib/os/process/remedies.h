// Finds the one thing to do to have the kernel or the sandbox permit more: from what was permitted
// and how the machine is set up to a command or another change. No kernel calls except in
// read_machine_settings().
#pragma once

#include <optional>
#include <string>

#include "os/process/permissions.h"

namespace wherry::impl {

// As in /proc/sys; nullopt where this kernel has no such setting.
struct MachineSettings {
  std::optional<int> unprivileged_userfaultfd;  // exists if the kernel has userfaultfd
  std::optional<int> io_uring_disabled;  // exists if the kernel is 6.6 or later and has io_uring
};
MachineSettings read_machine_settings();

// For userfaultfd that serves faults inside system calls too; empty if that is permitted.
std::string userfaultfd_remedy(const Permissions& permissions, const MachineSettings& settings);
// Empty if io_uring is permitted.
std::string io_uring_remedy(const Permissions& permissions, const MachineSettings& settings);

}  // namespace wherry::impl
