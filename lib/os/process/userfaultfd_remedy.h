// Finds the one thing to change so that Linux and the sandbox permit userfaultfd that serves faults
// inside system calls, too: a command, or another line of advice.
#pragma once

#include <optional>
#include <string>

#include "os/process/permissions.h"

namespace wherry::impl {

// vm.unprivileged_userfaultfd; nullopt if this Linux has no such setting, and so no userfaultfd.
std::optional<int> unprivileged_userfaultfd();

// `setting`: the result of unprivileged_userfaultfd(). Returns an empty string if nothing has to
// change. Makes no system calls.
std::string userfaultfd_remedy(const Permissions& permissions, std::optional<int> setting);

}  // namespace wherry::impl
