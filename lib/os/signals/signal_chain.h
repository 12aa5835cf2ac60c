// Puts this library's handlers of SIGSEGV and SIGBUS before the application's. Linux knows only the
// library's handler; the application's runs after it, as if it were the only one. Once the two
// signals are taken, always both, this file records what the application requests with sigaction()
// and related functions (interposers/signals.cc).
//
// Linux kills a process whose thread faults while it blocks the fault's signal, so no thread may
// really block a taken signal any more. A stand-in represents each in Linux's masks: when the
// application blocks SIGSEGV, Linux is told to block SIGSTKFLT, which Linux defines and never
// raises; for SIGBUS it is a real-time signal that the C library reserves for this process. So
// Linux itself keeps the requested state wherever it stores masks: on entry to and return from
// handlers, in siglongjmp(), in new threads and in forked processes. A taken signal that is sent to
// a thread that blocks it is deferred as its stand-in. The action that the application sets for a
// stand-in itself is recorded; whether a stand-in is blocked follows its taken signal. The contexts
// that other signals' handlers see contain Linux's masks.
//
// Lock-free, and without allocations: every function except take_signals() may be called in signal
// handlers and in forked children.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstdint>

namespace wherry::impl {

// From now on Linux calls `handler` for SIGSEGV, SIGBUS and their stand-ins, with all signals
// blocked except SIGSEGV and SIGBUS, on the stack that the application's action requests. The
// calling thread, and the masks of other signals' handlers, stop blocking SIGSEGV and SIGBUS; other
// running threads that block one continue to do so. Requests that other threads make for these
// signals during this call may be lost. Later calls, also in a forked child, replace the handler.
// Throws std::system_error: ENOTSUP if the program has reserved all real-time signals.
void take_signals(void (*handler)(int, siginfo_t*, ucontext_t*));
bool signals_are_taken();

// Called by the handler of take_signals(): performs the application's action. Does not return if
// the application's handler jumps out.
void pass_on(int signal, siginfo_t* info, ucontext_t* context);

// Translate between the masks that the application requests and those that Linux gets.
std::uint64_t mask_for_kernel(std::uint64_t asked);
std::uint64_t mask_for_application(std::uint64_t real);
// Translates a set of signals to unblock. A taken signal stays in the set beside its stand-in,
// because a thread that blocked the signal before it was taken really blocks it.
std::uint64_t mask_to_unblock(std::uint64_t asked);
// Adds the stand-ins to a set of signals to wait for.
std::uint64_t mask_to_await(std::uint64_t asked);

// Whether this file records the signal's action for the calling process instead of passing it to
// Linux.
bool is_remembered(int signal);
// sigaction() for a recorded signal. Either pointer may be null.
void exchange_action(int signal, const struct sigaction* asked, struct sigaction* old);

// Turns a received stand-in back into the deferred signal. A stand-in that was itself sent stays
// unchanged.
void restore_signal(siginfo_t& info);

}  // namespace wherry::impl
