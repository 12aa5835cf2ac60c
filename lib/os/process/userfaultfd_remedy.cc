#include "os/process/userfaultfd_remedy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "os/files/fd.h"

namespace wherry::impl {
namespace {

using Verdict = Answer::Verdict;

bool kills_or_hangs(const Answer& answer) {
  return answer.verdict == Verdict::killed || answer.verdict == Verdict::unending;
}

std::string allow_userfaultfd() {
  // A container's root does not have CAP_SYS_PTRACE by default.
  return "docker run --security-opt seccomp=unconfined --cap-add SYS_PTRACE (elsewhere: a seccomp "
         "filter that allows "
         "userfaultfd(2))";
}

}  // namespace

std::optional<int> unprivileged_userfaultfd() {
  const Fd file(::open("/proc/sys/vm/unprivileged_userfaultfd", O_RDONLY | O_CLOEXEC));
  char text[16] = {};
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0) return {};
  return std::atoi(text);
}

std::string userfaultfd_remedy(const Permissions& permissions, std::optional<int> setting) {
  if (serves_system_calls(permissions.userfaultfd())) return {};
  const Answer& full = permissions[Request::userfaultfd];
  const Answer& user_mode = permissions[Request::userfaultfd_user_mode];
  switch (user_mode.verdict) {
    case Verdict::permitted:
      // Linux itself refuses the full form only for lack of privilege.
      return kills_or_hangs(full) || setting == 1 ? allow_userfaultfd()
                                                  : "as root: sysctl vm.unprivileged_userfaultfd=1";
    case Verdict::too_old:
      return "Linux 5.19 or newer";
    case Verdict::not_tried:
      if (user_mode.error != 0) return "a higher limit of processes (ulimit -u)";
      break;
    case Verdict::refused:
      if (user_mode.error == ENOSYS && !setting) return "a kernel with CONFIG_USERFAULTFD";
      if (user_mode.error == EMFILE) return "a higher limit of open files (ulimit -n)";
      break;
    case Verdict::killed:
    case Verdict::unending:
      break;
  }
  // The user-mode form needs no privilege, so only a filter refuses it.
  return allow_userfaultfd();
}

}  // namespace wherry::impl
