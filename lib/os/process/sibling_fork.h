// fork(), but the new process becomes a child of the caller's parent, without an exit signal.
//
// Only for an intermediate process that clone(CLONE_VM | CLONE_VFORK) made without an exit signal:
// it has signal handlers and a signal mask of its own, and its thread-local memory is the suspended
// parent thread's. The C library's fork() offers no clone flags, so the system call that it makes
// is caught with syscall user dispatch and made again with CLONE_PARENT.
#pragma once

#include <sys/types.h>

namespace wherry::impl {

// Whether this kernel and processor can.
bool can_fork_sibling();

// fork(). Sets `sibling` in the caller when the new process is its parent's child; where the kernel
// cannot do that, it is an ordinary fork().
pid_t fork_sibling(bool& sibling);

}  // namespace wherry::impl
