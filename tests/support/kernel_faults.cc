#include "support/kernel_faults.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

namespace wherry::test {
namespace {

constexpr unsigned user_mode_only = 1;        // UFFD_USER_MODE_ONLY
constexpr unsigned userfaultfd_new = 0xAA00;  // USERFAULTFD_IOC_NEW, of /dev/userfaultfd
constexpr unsigned allow = SECCOMP_RET_ALLOW;
constexpr unsigned refuse = SECCOMP_RET_ERRNO | EPERM;

constexpr sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
}
constexpr sock_filter end(unsigned verdict) {
  return BPF_STMT(BPF_RET | BPF_K, verdict);
}

}  // namespace

void forbid_kernel_faults() {
  // Low words of the arguments, on this little-endian machine.
  constexpr std::size_t argument0 = offsetof(seccomp_data, args);
  constexpr std::size_t argument1 = argument0 + sizeof(seccomp_data::args[0]);
  sock_filter filter[] = {
      load(offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 3),
      load(argument0),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, user_mode_only, 3, 0),
      end(refuse),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
      load(argument1),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, userfaultfd_new, 1, 0),
      end(allow),
      end(refuse),
  };
  sock_fprog program{sizeof filter / sizeof *filter, filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    throw std::system_error(errno, std::generic_category(), "a seccomp filter");
}

}  // namespace wherry::test
