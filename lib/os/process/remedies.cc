#include "os/process/remedies.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "os/files/fd.h"

namespace wherry::impl {
namespace {

using Verdict = Answer::Verdict;

constexpr const char* room_for_a_process = "a higher limit of processes (ulimit -u)";

std::optional<int> read_setting(const char* path) {
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  char text[16] = {};
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0) return {};
  return std::atoi(text);
}

bool kills_or_hangs(const Answer& answer) {
  return answer.verdict == Verdict::killed || answer.verdict == Verdict::unending;
}

std::string allow_userfaultfd() {
  // A container's root does not have CAP_SYS_PTRACE by default.
  return "docker run --security-opt seccomp=unconfined --cap-add SYS_PTRACE (elsewhere: a seccomp "
         "filter that allows "
         "userfaultfd(2))";
}

std::string allow_io_uring() {
  return "docker run --security-opt seccomp=unconfined (elsewhere: a seccomp filter that allows "
         "io_uring_setup(2), "
         "io_uring_enter(2) and io_uring_register(2))";
}

}  // namespace

MachineSettings read_machine_settings() {
  return {read_setting("/proc/sys/vm/unprivileged_userfaultfd"),
          read_setting("/proc/sys/kernel/io_uring_disabled")};
}

std::string userfaultfd_remedy(const Permissions& permissions, const MachineSettings& settings) {
  if (serves_system_calls(permissions.userfaultfd())) return {};
  const Answer& full = permissions[Request::userfaultfd];
  const Answer& user_mode = permissions[Request::userfaultfd_user_mode];
  switch (user_mode.verdict) {
    case Verdict::permitted:
      // The kernel itself refuses the full form only for lack of privilege.
      return kills_or_hangs(full) || settings.unprivileged_userfaultfd == 1
                 ? allow_userfaultfd()
                 : "as root: sysctl vm.unprivileged_userfaultfd=1";
    case Verdict::too_old:
      return "Linux 5.19 or newer";
    case Verdict::not_tried:
      if (user_mode.error != 0) return room_for_a_process;
      break;
    case Verdict::refused:
      if (user_mode.error == ENOSYS && !settings.unprivileged_userfaultfd)
        return "a kernel with CONFIG_USERFAULTFD";
      if (user_mode.error == EINVAL) return "Linux 5.19 or newer";
      if (user_mode.error == EMFILE) return "a higher limit of open files (ulimit -n)";
      break;
    case Verdict::killed:
    case Verdict::unending:
      break;
  }
  // The user-mode form needs no privilege, so only a filter refuses it.
  return allow_userfaultfd();
}

std::string io_uring_remedy(const Permissions& permissions, const MachineSettings& settings) {
  const Answer& answer = permissions[Request::io_uring];
  switch (answer.verdict) {
    case Verdict::permitted:
      return {};
    case Verdict::not_tried:
      if (answer.error != 0) return room_for_a_process;
      break;
    case Verdict::refused:
      if (answer.error == EPERM && settings.io_uring_disabled.value_or(0) != 0)
        return "as root: sysctl kernel.io_uring_disabled=0";
      if (answer.error == ENOSYS && !settings.io_uring_disabled)
        return "a kernel with CONFIG_IO_URING; if it has that: " + allow_io_uring();
      if (answer.error == ENOMEM) return "a higher limit of locked memory (ulimit -l)";
      if (answer.error == EMFILE) return "a higher limit of open files (ulimit -n)";
      break;
    case Verdict::too_old:
    case Verdict::killed:
    case Verdict::unending:
      break;
  }
  return allow_io_uring();
}

}  // namespace wherry::impl
