// fork(), except that the new process becomes a child of the caller's parent, without an exit
// signal.
//
// Only for an intermediate process that clone(CLONE_VM | CLONE_VFORK) created without an exit
// signal: it has signal handlers and a signal mask of its own, and it uses the thread-local memory
// of the suspended parent thread. The C library's fork() offers no clone flags, so its system call
// is intercepted with syscall user dispatch and made again with CLONE_PARENT.
#pragma once

#include <sys/types.h>

namespace wherry::impl {

// Whether this Linux and this CPU support fork_sibling().
bool can_fork_sibling();

// Like fork(). In the caller, sets `sibling` to whether the new process is a child of the caller's
// parent. Where Linux does not support that, this is an ordinary fork().
pid_t fork_sibling(bool& sibling);

}  // namespace wherry::impl
