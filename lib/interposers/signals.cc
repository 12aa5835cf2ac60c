// Replaces the C library's functions that set a signal's action or a mask, for the whole program.
// While the library has taken SIGSEGV and SIGBUS (os/signals/signal_chain.h), these functions
// behave as if it had not. At other times, and for other signals, they call the real functions.
//
// Replaced are the functions by which a program can replace a taken signal's handler or really
// block it, also for the time of a wait, and those that take or list pending signals. Not replaced
// are sigpause(), siglongjmp() and the like, which restore masks that Linux stored; siginterrupt(),
// which only changes how the library's handler interrupts system calls; and signalfd(), which shows
// a deferred signal as its stand-in. System calls that code makes directly are not replaced,
// either.
//
// The functions may be called in signal handlers, before this library's constructors, and by a
// sanitizer during its start, so they neither allocate nor lock.

// With _FORTIFY_SOURCE the inline ppoll() would conflict with the definition in this file.
#undef _FORTIFY_SOURCE

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "interposers/attached.h"
#include "interposers/next.h"
#include "os/signals/kernel_signals.h"

namespace wherry::interposers {
namespace {

using impl::kernel_sigaction;
using impl::kernel_sigprocmask;
using impl::load_mask;
using impl::store_mask;

using Handler = void (*)(int);

constinit Next<int(int, const struct sigaction*, struct sigaction*)> next_sigaction("sigaction");
constinit Next<Handler(int, Handler)> next_signal("signal");
constinit Next<Handler(int, Handler)> next_sysv_signal("__sysv_signal");
constinit Next<Handler(int, Handler)> next_sigset("sigset");
constinit Next<int(int)> next_sigignore("sigignore");
constinit Next<int(int, const sigset_t*, sigset_t*)> next_sigprocmask("sigprocmask");
constinit Next<int(int, const sigset_t*, sigset_t*)> next_pthread_sigmask("pthread_sigmask");
constinit Next<int(pthread_attr_t*, const sigset_t*)> next_attr_setsigmask(
    "pthread_attr_setsigmask_np");
constinit Next<int(const pthread_attr_t*, sigset_t*)> next_attr_getsigmask(
    "pthread_attr_getsigmask_np");
constinit Next<int(int)> next_sighold("sighold");
constinit Next<int(int)> next_sigrelse("sigrelse");
constinit Next<int(const sigset_t*)> next_sigsuspend("sigsuspend");
constinit Next<int(pollfd*, nfds_t, const timespec*, const sigset_t*)> next_ppoll("ppoll");
constinit Next<int(pollfd*, nfds_t, const timespec*, const sigset_t*, std::size_t)> next_ppoll_chk(
    "__ppoll_chk");
constinit Next<int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*)> next_pselect(
    "pselect");
constinit Next<int(int, epoll_event*, int, int, const sigset_t*)> next_epoll_pwait("epoll_pwait");
constinit Next<int(int, epoll_event*, int, const timespec*, const sigset_t*)> next_epoll_pwait2(
    "epoll_pwait2");
constinit Next<int(sigset_t*)> next_sigpending("sigpending");
constinit Next<int(const sigset_t*, siginfo_t*)> next_sigwaitinfo("sigwaitinfo");
constinit Next<int(const sigset_t*, siginfo_t*, const timespec*)> next_sigtimedwait("sigtimedwait");
constinit Next<int(const sigset_t*, int*)> next_sigwait("sigwait");

// Finds the functions early, so that signal handlers, which may interrupt the dynamic loader, do
// not call dlsym().
[[gnu::constructor]] void find_those_for_handlers() {
  next_sigaction.find();
  next_signal.find();
  next_sigprocmask.find();
  next_pthread_sigmask.find();
  next_sigsuspend.find();
  next_sigpending.find();
}

// The functions of os/signals/signal_chain.h, called through the library's hooks.

bool signals_are_taken() {
  const impl::InterposerHooks* const hooks = attached();
  return hooks != nullptr && hooks->signals_are_taken();
}
bool is_remembered(int signal) {
  const impl::InterposerHooks* const hooks = attached();
  return hooks != nullptr && hooks->is_remembered(signal);
}
// Requires: is_remembered(signal).
void exchange_action(int signal, const struct sigaction* asked, struct sigaction* old) {
  attached()->exchange_action(signal, asked, old);
}
// The next functions require signals_are_taken().
std::uint64_t mask_for_kernel(std::uint64_t asked) {
  return attached()->mask_for_kernel(asked);
}
std::uint64_t mask_for_application(std::uint64_t real) {
  return attached()->mask_for_application(real);
}
std::uint64_t mask_to_unblock(std::uint64_t asked) {
  return attached()->mask_to_unblock(asked);
}
std::uint64_t mask_to_await(std::uint64_t asked) {
  return attached()->mask_to_await(asked);
}
void restore_signal(siginfo_t& info) {
  if (const impl::InterposerHooks* const hooks = attached()) hooks->restore_signal(info);
}

// A set of signals of the application, translated for Linux.
class KernelSet {
 public:
  KernelSet(const sigset_t* asked, std::uint64_t (*translate)(std::uint64_t)) : set_(asked) {
    if (asked == nullptr || !signals_are_taken()) return;
    copy_ = *asked;
    store_mask(copy_, translate(load_mask(*asked)));
    set_ = &copy_;
  }
  KernelSet(const KernelSet&) = delete;
  KernelSet& operator=(const KernelSet&) = delete;

  const sigset_t* get() const { return set_; }

 private:
  const sigset_t* set_;
  sigset_t copy_;
};

// A mask that the application sets, translated.
struct KernelMask : KernelSet {
  explicit KernelMask(const sigset_t* asked) : KernelSet(asked, mask_for_kernel) {}
  KernelMask(int how, const sigset_t* asked)
      : KernelSet(asked, how == SIG_UNBLOCK ? mask_to_unblock : mask_for_kernel) {}
};

// The signals that the application waits for, translated.
struct AwaitedSet : KernelSet {
  explicit AwaitedSet(const sigset_t* asked) : KernelSet(asked, mask_to_await) {}
};

void show_mask(sigset_t* mask) {
  if (mask != nullptr && signals_are_taken())
    store_mask(*mask, mask_for_application(load_mask(*mask)));
}

int received(int result, siginfo_t* info, const siginfo_t& own) {
  if (result < 0) return result;
  siginfo_t shown = own;
  restore_signal(shown);
  if (info != nullptr) *info = shown;
  return shown.si_signo;
}

Handler change_handler(int signal, Handler handler, int flags) {
  struct sigaction asked {};
  struct sigaction before {};
  asked.sa_handler = handler;
  asked.sa_flags = flags;
  exchange_action(signal, &asked, &before);
  return before.sa_handler;
}

int change_mask(int how, int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return ::sigprocmask(how, &set, nullptr);
}

// Changes the mask for the oldest interface, which has signals 1 to 32 in a word.
int change_word(int how, int word) {
  sigset_t set;
  sigset_t before;
  sigemptyset(&set);
  sigemptyset(&before);
  store_mask(set, static_cast<std::uint32_t>(word));
  return ::sigprocmask(how, &set, &before) != 0 ? -1 : static_cast<int>(load_mask(before));
}

}  // namespace
}  // namespace wherry::interposers

#define WHERRY_INTERPOSER extern "C" [[gnu::visibility("default")]]

using namespace wherry::interposers;

// Functions that set an action.

WHERRY_INTERPOSER int sigaction(int signal, const struct sigaction* asked,
                                struct sigaction* old) noexcept {
  if (is_remembered(signal)) {
    exchange_action(signal, asked, old);
    return 0;
  }
  struct sigaction real {};
  if (asked != nullptr) {
    real = *asked;
    real.sa_mask = *KernelMask(&asked->sa_mask).get();
  }
  const auto* passed = asked != nullptr ? &real : nullptr;
  const int result = next_sigaction.find() != nullptr ? next_sigaction(signal, passed, old)
                                                      : kernel_sigaction(signal, passed, old);
  if (result == 0 && old != nullptr) show_mask(&old->sa_mask);
  return result;
}

WHERRY_INTERPOSER Handler signal(int signal, Handler handler) noexcept {
  if (!is_remembered(signal)) return next_signal(signal, handler);
  return change_handler(signal, handler, SA_RESTART);
}
WHERRY_INTERPOSER Handler bsd_signal(int signal, Handler handler) noexcept {
  return ::signal(signal, handler);
}
WHERRY_INTERPOSER Handler ssignal(int signal, Handler handler) noexcept {
  return ::signal(signal, handler);
}

// The name of signal() in programs that request only the C or X/Open standard.
WHERRY_INTERPOSER Handler __sysv_signal(int signal, Handler handler) noexcept {
  if (!is_remembered(signal)) return next_sysv_signal(signal, handler);
  return change_handler(signal, handler, static_cast<int>(SA_RESETHAND) | SA_NODEFER);
}
WHERRY_INTERPOSER Handler sysv_signal(int signal, Handler handler) noexcept {
  return ::__sysv_signal(signal, handler);
}

WHERRY_INTERPOSER Handler sigset(int signal, Handler handler) noexcept {
  if (!is_remembered(signal)) return next_sigset(signal, handler);
  sigset_t before;
  sigemptyset(&before);
  struct sigaction action {};
  exchange_action(signal, nullptr, &action);
  ::sigprocmask(SIG_BLOCK, nullptr, &before);
  if (handler != SIG_HOLD) change_handler(signal, handler, 0);
  change_mask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, signal);
  return sigismember(&before, signal) == 1 ? SIG_HOLD : action.sa_handler;
}

WHERRY_INTERPOSER int sigignore(int signal) noexcept {
  if (!is_remembered(signal)) return next_sigignore(signal);
  change_handler(signal, SIG_IGN, 0);
  return 0;
}

// Functions that set the mask.

WHERRY_INTERPOSER int sigprocmask(int how, const sigset_t* asked, sigset_t* old) noexcept {
  const KernelMask mask(how, asked);
  const int result = next_sigprocmask.find() != nullptr ? next_sigprocmask(how, mask.get(), old)
                                                        : kernel_sigprocmask(how, mask.get(), old);
  if (result == 0) show_mask(old);
  return result;
}

WHERRY_INTERPOSER int pthread_sigmask(int how, const sigset_t* asked, sigset_t* old) noexcept {
  const KernelMask mask(how, asked);
  int error = 0;
  if (next_pthread_sigmask.find() != nullptr) {
    error = next_pthread_sigmask(how, mask.get(), old);
  } else if (kernel_sigprocmask(how, mask.get(), old) != 0) {
    error = errno;
  }
  if (error == 0) show_mask(old);
  return error;
}

WHERRY_INTERPOSER int pthread_attr_setsigmask_np(pthread_attr_t* attributes,
                                                 const sigset_t* asked) {
  return next_attr_setsigmask(attributes, KernelMask(asked).get());
}
WHERRY_INTERPOSER int pthread_attr_getsigmask_np(const pthread_attr_t* attributes, sigset_t* mask) {
  const int result = next_attr_getsigmask(attributes, mask);
  if (result == 0) show_mask(mask);
  return result;
}

WHERRY_INTERPOSER int sighold(int signal) noexcept {
  return is_remembered(signal) ? change_mask(SIG_BLOCK, signal) : next_sighold(signal);
}
WHERRY_INTERPOSER int sigrelse(int signal) noexcept {
  return is_remembered(signal) ? change_mask(SIG_UNBLOCK, signal) : next_sigrelse(signal);
}

WHERRY_INTERPOSER int sigblock(int word) noexcept {
  return change_word(SIG_BLOCK, word);
}
WHERRY_INTERPOSER int sigsetmask(int word) noexcept {
  return change_word(SIG_SETMASK, word);
}
WHERRY_INTERPOSER int siggetmask() noexcept {
  return change_word(SIG_BLOCK, 0);
}

// Functions that wait under another mask.

WHERRY_INTERPOSER int sigsuspend(const sigset_t* asked) {
  return next_sigsuspend(KernelMask(asked).get());
}
WHERRY_INTERPOSER int ppoll(pollfd* polled, nfds_t count, const timespec* limit,
                            const sigset_t* asked) {
  return next_ppoll(polled, count, limit, KernelMask(asked).get());
}
WHERRY_INTERPOSER int __ppoll_chk(pollfd* polled, nfds_t count, const timespec* limit,
                                  const sigset_t* asked, std::size_t room) {
  return next_ppoll_chk(polled, count, limit, KernelMask(asked).get(), room);
}
WHERRY_INTERPOSER int pselect(int count, fd_set* readable, fd_set* writable, fd_set* exceptional,
                              const timespec* limit, const sigset_t* asked) {
  return next_pselect(count, readable, writable, exceptional, limit, KernelMask(asked).get());
}
WHERRY_INTERPOSER int epoll_pwait(int epoll, epoll_event* events, int count, int limit,
                                  const sigset_t* asked) {
  return next_epoll_pwait(epoll, events, count, limit, KernelMask(asked).get());
}
WHERRY_INTERPOSER int epoll_pwait2(int epoll, epoll_event* events, int count, const timespec* limit,
                                   const sigset_t* asked) {
  return next_epoll_pwait2(epoll, events, count, limit, KernelMask(asked).get());
}

// Functions that take or list pending signals.

WHERRY_INTERPOSER int sigpending(sigset_t* pending) noexcept {
  const int result = next_sigpending(pending);
  if (result == 0) show_mask(pending);
  return result;
}
WHERRY_INTERPOSER int sigwaitinfo(const sigset_t* asked, siginfo_t* info) {
  siginfo_t own{};
  return received(next_sigwaitinfo(AwaitedSet(asked).get(), &own), info, own);
}
WHERRY_INTERPOSER int sigtimedwait(const sigset_t* asked, siginfo_t* info, const timespec* limit) {
  siginfo_t own{};
  return received(next_sigtimedwait(AwaitedSet(asked).get(), &own, limit), info, own);
}
WHERRY_INTERPOSER int sigwait(const sigset_t* asked, int* signal) {
  if (!signals_are_taken()) return next_sigwait(asked, signal);
  for (;;) {
    const int result = ::sigwaitinfo(asked, nullptr);
    if (result < 0 && errno == EINTR) continue;
    if (result < 0) return errno;
    *signal = result;
    return 0;
  }
}
