// While a thread of the application holds a lock of the fault path, the application's signal
// handlers do not run in that thread: a handler may access managed memory, and resolving its fault
// may need that lock.
//
// Signals that a thread's own instructions raise (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
// SIGABRT, SIGSYS) and signals that the C library reserves for itself are not blocked.
#pragma once

namespace wherry::impl {

// block_signals() blocks signals in the calling thread. Calls nest: signals stay blocked until
// unblock_signals() has been called as often as block_signals(). So a thread that holds several
// locks may release them in any order. Signal handlers may call both functions. Both preserve
// errno.
void block_signals();
void unblock_signals();

// Blocks signals around the use of several locks of the fault path, so that they are blocked once
// and not for each lock.
class BlockedSignals {
 public:
  BlockedSignals() { block_signals(); }
  ~BlockedSignals() { unblock_signals(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
};

// Call in a forked child whose signals are unblocked by other means. The calling thread's calls of
// block_signals() count as undone.
void forget_blocked_signals();

// From now on block_signals() does not block `signal`, in any thread.
void never_block(int signal);

// Declares that the calling thread has all signals blocked for its whole life, so that
// block_signals() needs no system call.
void thread_gets_no_signals();

}  // namespace wherry::impl
