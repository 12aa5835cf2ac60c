// SIGSEGV, of which the handler that Linux knows is this library's, and the application's comes
// after it as if it were the only one. Once taken, what sigaction() and the like ask
// (signal_interposers.cc) is remembered here.
//
// Linux kills a process whose thread faults while it blocks SIGSEGV, so SIGSEGV is blocked nowhere
// any more. SIGSTKFLT, which Linux defines and never raises, stands in for it: where the
// application blocks SIGSEGV, Linux is told to block SIGSTKFLT. So Linux itself keeps what was
// asked, wherever masks go: into handlers and out of them, by siglongjmp() too, into new threads
// and forked processes. A SIGSEGV that somebody sends to a thread that blocks it is put off as a
// SIGSTKFLT. What the application asks of SIGSTKFLT itself is remembered; whether it is blocked
// goes by SIGSEGV. The contexts of handlers of other signals show and take masks as Linux has them.
//
// Lock-free and without allocations: every function but take_signals() may be called by a handler,
// in a forked child too.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstdint>

namespace wherry::impl {

// From now on Linux calls `handler` for SIGSEGV and SIGSTKFLT, with all signals blocked but SIGSEGV
// and SIGBUS, on the stack that the application's action asks for. Handlers of other signals, and
// the calling thread, that blocked SIGSEGV stop blocking it; threads that run already and block it
// go on doing so. What other threads ask of the two signals during this call may be lost. Later
// calls, also in a forked child, replace the handler. Throws std::system_error.
void take_signals(void (*handler)(int, siginfo_t*, ucontext_t*));
bool signals_are_taken();

// For the handler of take_signals(): what happens if nothing but the application's action is there.
// May not return, when the application's handler jumps.
void pass_on(int signal, siginfo_t* info, ucontext_t* context);

// Masks as the application puts them and as Linux gets them.
std::uint64_t mask_for_kernel(std::uint64_t asked);
std::uint64_t mask_for_application(std::uint64_t real);

// Whether the action of this signal is remembered instead of told to Linux, by the calling process.
bool is_remembered(int signal);
// sigaction() for a remembered signal. Null pointers as there.
void exchange_action(int signal, const struct sigaction* asked, struct sigaction* old);

// What stands in for SIGSEGV, for who waits for it.
inline constexpr int stand_in = SIGSTKFLT;
// Turns a stand-in that was received back into the SIGSEGV that was put off; a SIGSTKFLT that was
// sent as one stays.
void restore_signal(siginfo_t& info);

// A mask of 64 signals, which is how much of a sigset_t Linux knows: a ucontext_t from Linux has
// room for no more.
std::uint64_t load_mask(const sigset_t& set);
void store_mask(sigset_t& set, std::uint64_t mask);

// Past all interposers: the C library's own, under the name that only it defines; and for masks the
// system call.
int kernel_sigaction(int signal, const struct sigaction* asked, struct sigaction* old);
int kernel_sigprocmask(int how, const sigset_t* asked, sigset_t* old);

}  // namespace wherry::impl
