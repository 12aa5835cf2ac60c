// Seccomp filters like those of containers: from now on this process, and all that it starts, may
// not use one system call, or some uses of it.
#pragma once

namespace wherry::test {

// What happens to the caller of a forbidden system call.
enum class FilterAction {
  refuse_eperm,   // the call fails with EPERM
  refuse_enosys,  // the call fails with ENOSYS, as if Linux did not have it
  refuse_eagain,  // the call fails with EAGAIN, like a temporary lack of resources
  trap,           // the calling thread gets SIGSYS
  kill,           // the process ends as by a SIGSYS that cannot be caught
  hang,           // the call waits forever; a descriptor stays open for that
};

// Applies to the calling thread and to everything that it starts later, and cannot be removed.
// Needs no privilege. Throws std::system_error.
void forbid_system_call(long number, FilterAction action);

// Makes madvise(2) fail with EINVAL for these kinds of advice, as on a Linux that does not know
// them. Otherwise like forbid_system_call().
void forbid_advice(int first, int last);

// Restricts userfaultfd to what an unprivileged program gets: user-mode-only, which does not serve
// faults taken inside system calls. Also works on machines that allow more
// (vm.unprivileged_userfaultfd=1, an accessible /dev/userfaultfd). Otherwise like
// forbid_system_call().
void leave_user_mode_only_userfaultfd();

}  // namespace wherry::test
