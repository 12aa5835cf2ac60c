#include "support/seccomp_filter.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <system_error>

namespace wherry::test {
namespace {

std::uint32_t result_of(FilterAction action) {
  switch (action) {
    case FilterAction::refuse_eperm:
      return SECCOMP_RET_ERRNO | EPERM;
    case FilterAction::refuse_enosys:
      return SECCOMP_RET_ERRNO | ENOSYS;
    case FilterAction::trap:
      return SECCOMP_RET_TRAP;
    case FilterAction::hang:
      return SECCOMP_RET_USER_NOTIF;
    case FilterAction::kill:
      break;
  }
  return SECCOMP_RET_KILL_PROCESS;
}

}  // namespace

void forbid_system_call(long number, FilterAction action) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, result_of(action)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(filter), filter};
  const unsigned long flags = action == FilterAction::hang ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0UL;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) < 0)
    throw std::system_error(errno, std::generic_category(), "cannot install a seccomp filter");
}

}  // namespace wherry::test
