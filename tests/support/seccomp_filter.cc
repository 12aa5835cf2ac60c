#include "support/seccomp_filter.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

#ifndef USERFAULTFD_IOC_NEW  // newer than the oldest kernel headers that this must compile with
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace wherry::test {
namespace {

std::uint32_t result_of(FilterAction action) {
  switch (action) {
    case FilterAction::refuse_eperm:
      return SECCOMP_RET_ERRNO | EPERM;
    case FilterAction::refuse_enosys:
      return SECCOMP_RET_ERRNO | ENOSYS;
    case FilterAction::refuse_eagain:
      return SECCOMP_RET_ERRNO | EAGAIN;
    case FilterAction::trap:
      return SECCOMP_RET_TRAP;
    case FilterAction::hang:
      return SECCOMP_RET_USER_NOTIF;
    case FilterAction::kill:
      break;
  }
  return SECCOMP_RET_KILL_PROCESS;
}

void install(std::span<sock_filter> filter, unsigned long flags) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) < 0)
    throw std::system_error(errno, std::generic_category(), "cannot install a seccomp filter");
}

// The lower half of an argument of the system call, on a little-endian machine.
constexpr std::size_t argument(std::size_t index) {
  return offsetof(seccomp_data, args) + index * sizeof(seccomp_data::args[0]);
}

}  // namespace

void forbid_system_call(long number, FilterAction action) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, result_of(action)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  install(filter, action == FilterAction::hang ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0UL);
}

void forbid_advice(int first, int last) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(2)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, static_cast<std::uint32_t>(first), 0, 1),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, static_cast<std::uint32_t>(last), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
  };
  install(filter, 0);
}

void leave_user_mode_only_userfaultfd() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 3, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      // userfaultfd(flags)
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(0)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, UFFD_USER_MODE_ONLY, 2, 3),
      // ioctl(fd, request)
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(1)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, USERFAULTFD_IOC_NEW, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  install(filter, 0);
}

}  // namespace wherry::test
