// Calls a function in a short-lived process, the helper, which shares this process's memory, while
// the calling thread waits: for system calls that a seccomp filter may answer by killing the
// caller, or that change the caller's namespaces. The program does not notice the helper: it gets
// no SIGCHLD, and wait() does not find it.
#pragma once

namespace wherry::impl {

struct HelperEnd {
  int start_error = 0;    // errno if the helper could not start
  bool killed = false;    // by a signal
  bool unending = false;  // it was killed because its time was over
};

// The helper's limit, in seconds. It normally needs a tenth of a millisecond.
inline constexpr int helper_limit_s = 5;

// `function` should make system calls only: it runs on a stack of 64 KiB, and if it is killed, what
// it has locked stays locked. Descriptors that it opens are closed when it ends; with CLONE_FILES
// in `flags` they are this process's. Further flags are the CLONE_NEW* of clone(2). Preserves
// errno. Any thread. Throws std::system_error if there is no memory for the stack.
HelperEnd call_in_helper(int flags, void (*function)(void*), void* argument);

// Call it in a helper, before a system call that may kill the helper. Before Linux 5.16 a process
// that dumps core, or would but for the limit, takes all processes with it that share its memory.
// On such a Linux this memory is excluded from core dumps until call_in_helper() returns; until
// then an ordinary user may not write to files of the helper in /proc.
void expect_to_be_killed();

}  // namespace wherry::impl
