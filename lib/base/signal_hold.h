// While a thread of the application holds a lock of the fault path, the application's signal
// handlers do not run in it: a handler may touch managed memory, and the answer to its fault may
// need that very lock.
//
// Signals that a thread's own instructions raise stay as they are (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
// SIGTRAP, SIGABRT, SIGSYS), and so do those that the C library keeps for itself.
#pragma once

namespace wherry::impl {

// Blocks signals in the calling thread until as many calls of release_signals(), in whatever order
// locks are let go. May be called in signal handlers. Keeps errno.
void hold_signals();
void release_signals();

// In a forked process, whose signals are unblocked by other means: the calling thread holds none
// back.
void forget_held_signals();

// The calling thread has all signals blocked as long as it lives, and so needs no calls of the
// kernel here.
void thread_gets_no_signals();

}  // namespace wherry::impl
