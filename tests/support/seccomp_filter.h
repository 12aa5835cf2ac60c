// Seccomp filters as containers have them: from now on this process, and all that it starts, may
// not use one system call, or some of its uses.
#pragma once

namespace wherry::test {

// What happens to the caller of a forbidden system call.
enum class FilterAction {
  refuse_eperm,   // it fails with EPERM
  refuse_enosys,  // it fails with ENOSYS, as if the kernel did not have it
  refuse_eagain,  // it fails with EAGAIN, as if the kernel were short of something for a moment
  trap,           // its thread gets SIGSYS
  kill,           // its process ends, as by a SIGSYS that nobody can catch
  hang,           // it waits for an answer that never comes; a descriptor stays open for that
};

// Of the calling thread and of whatever it starts later; cannot be taken back. Needs no privilege.
// Throws std::system_error.
void forbid_system_call(long number, FilterAction action);

// Leaves of userfaultfd what a program gets without any privilege: user-mode-only, which does not
// serve faults taken inside system calls. Also on machines that give more
// (vm.unprivileged_userfaultfd=1, an accessible /dev/userfaultfd). Otherwise as above.
void leave_user_mode_only_userfaultfd();

}  // namespace wherry::test
