// Puts this library's SIGSEGV handler before the application's. Linux knows only the library's
// handler; the application's runs after it, as if it were the only one. Once the signal is taken,
// this file records what the application requests with sigaction() and related functions
// (interposers/signals.cc).
//
// Linux kills a process whose thread faults while it blocks SIGSEGV, so no thread may really block
// SIGSEGV any more. SIGSTKFLT, which Linux defines and never raises, stands in for it: when the
// application blocks SIGSEGV, Linux is told to block SIGSTKFLT. So Linux itself keeps the requested
// state wherever it stores masks: on entry to and return from handlers, in siglongjmp(), in new
// threads and in forked processes. A SIGSEGV that is sent to a thread that blocks it is deferred as
// a SIGSTKFLT. The action that the application sets for SIGSTKFLT itself is recorded; whether
// SIGSTKFLT is blocked follows SIGSEGV. The contexts that other signals' handlers see contain
// Linux's masks.
//
// Lock-free, and without allocations: every function except take_signals() may be called in signal
// handlers and in forked children.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstdint>

namespace wherry::impl {

// From now on Linux calls `handler` for SIGSEGV and SIGSTKFLT, with all signals blocked except
// SIGSEGV and SIGBUS, on the stack that the application's action requests. The calling thread, and
// the masks of other signals' handlers, stop blocking SIGSEGV; other running threads that block it
// continue to do so. Requests that other threads make for the two signals during this call may be
// lost. Later calls, also in a forked child, replace the handler. Throws std::system_error.
void take_signals(void (*handler)(int, siginfo_t*, ucontext_t*));
bool signals_are_taken();

// Called by the handler of take_signals(): performs the application's action. Does not return if
// the application's handler jumps out.
void pass_on(int signal, siginfo_t* info, ucontext_t* context);

// Translate between the masks that the application requests and those that Linux gets.
std::uint64_t mask_for_kernel(std::uint64_t asked);
std::uint64_t mask_for_application(std::uint64_t real);

// Whether the action of this signal is recorded here instead of passed to Linux, in the calling
// process.
bool is_remembered(int signal);
// sigaction() for a recorded signal. Either pointer may be null.
void exchange_action(int signal, const struct sigaction* asked, struct sigaction* old);

// The signal that stands in for SIGSEGV, for callers that wait for signals.
inline constexpr int stand_in = SIGSTKFLT;
// Turns a received stand-in back into the deferred SIGSEGV. A SIGSTKFLT that was sent as such stays
// unchanged.
void restore_signal(siginfo_t& info);

}  // namespace wherry::impl
