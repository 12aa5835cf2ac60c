#include "os/signals/signal_chain.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <iterator>

#include "base/signal_blocking.h"
#include "os/files/fd.h"
#include "os/process/fork_mark.h"
#include "os/process/interposer_hooks.h"
#include "os/signals/kernel_signals.h"

// Reserves a real-time signal of the process and returns it, or -1 if none is free. If
// `from_lowest` is 0 it takes the highest one, and SIGRTMAX falls by one. The C library exports
// this function without a declaration.
extern "C" int __libc_allocate_rtsig(int from_lowest) noexcept;

namespace wherry::impl {
namespace {

constexpr std::uint64_t bit_of(int signal) {
  return std::uint64_t{1} << (signal - 1);
}

// Marks a deferred signal in si_errno, which is 0 in every signal that is sent.
constexpr int put_off_mark = 0x57485259;

struct Action {
  std::uintptr_t handler = 0;  // SIG_DFL
  std::uint64_t flags = 0;
  std::uint64_t mask = 0;

  bool is_default() const { return handler == reinterpret_cast<std::uintptr_t>(SIG_DFL); }
  bool is_ignored() const { return handler == reinterpret_cast<std::uintptr_t>(SIG_IGN); }
  bool has(int flag) const { return (flags & static_cast<unsigned>(flag)) != 0; }
};

// The application's action for one signal. There is no lock: one held by another thread would stay
// locked in a child of fork(), and a handler may interrupt a change. Instead each version has a
// slot of its own, and a number selects the current one.
class RememberedAction {
 public:
  Action get() const { return load().action; }

  // Returns the previous action.
  Action exchange(const Action& action) {
    Version seen = load();
    while (!replace(seen, action)) seen = load();
    return seen.action;
  }

  // Returns the action for a signal that is being delivered. SA_RESETHAND resets the handler after
  // one delivery.
  Action take() {
    for (;;) {
      const Version seen = load();
      if (seen.action.is_default() || seen.action.is_ignored() ||
          !seen.action.has(static_cast<int>(SA_RESETHAND)))
        return seen.action;
      Action after = seen.action;
      after.handler = reinterpret_cast<std::uintptr_t>(SIG_DFL);
      if (replace(seen, after)) return seen.action;
    }
  }

 private:
  static constexpr std::uint64_t no_version = ~std::uint64_t{0};
  static constexpr std::size_t slot_count = 64;  // changes that may happen during one read

  struct Version {
    std::uint64_t number = 0;
    Action action;
  };
  struct Slot {
    std::atomic<std::uint64_t> number = 0;
    std::atomic<std::uintptr_t> handler = 0;
    std::atomic<std::uint64_t> flags = 0;
    std::atomic<std::uint64_t> mask = 0;
  };

  Version load() const {
    for (;;) {
      Version seen;
      seen.number = current_.load(std::memory_order_acquire);
      const Slot& slot = slots_[seen.number % slot_count];
      seen.action.handler = slot.handler.load(std::memory_order_acquire);
      seen.action.flags = slot.flags.load(std::memory_order_acquire);
      seen.action.mask = slot.mask.load(std::memory_order_acquire);
      if (slot.number.load(std::memory_order_relaxed) == seen.number) return seen;
    }
  }

  bool replace(const Version& seen, const Action& action) {
    const std::uint64_t number = last_.fetch_add(1, std::memory_order_relaxed) + 1;
    Slot& slot = slots_[number % slot_count];
    slot.number.store(no_version, std::memory_order_relaxed);
    slot.handler.store(action.handler, std::memory_order_release);
    slot.flags.store(action.flags, std::memory_order_release);
    slot.mask.store(action.mask, std::memory_order_release);
    slot.number.store(number, std::memory_order_release);
    std::uint64_t expected = seen.number;
    return current_.compare_exchange_strong(expected, number, std::memory_order_acq_rel);
  }

  std::array<Slot, slot_count> slots_;
  std::atomic<std::uint64_t> current_ = 0;
  std::atomic<std::uint64_t> last_ = 0;
};

// A signal that this file takes, its stand-in (the signal that Linux blocks in its place), and the
// application's actions for both.
struct TakenSignal {
  const int number;
  std::atomic<int> stand_in;  // written before the signals are taken, and not again
  RememberedAction action;
  RememberedAction action_of_stand_in;

  std::uint64_t bit() const { return bit_of(number); }
  std::uint64_t stand_in_bit() const { return bit_of(stand_in.load(std::memory_order_relaxed)); }
};
constexpr int not_reserved = NSIG;
constinit TakenSignal taken_signals[] = {{SIGSEGV, SIGSTKFLT, {}, {}},
                                         {SIGBUS, not_reserved, {}, {}}};

constinit std::atomic<void (*)(int, siginfo_t*, ucontext_t*)> taken_by = nullptr;

// The process that took the signals. A child of vfork() shares its memory, but must not change its
// actions. Handlers may run until the process ends, so the mark is never destroyed.
constinit std::atomic<const ForkMark*> taken_here = nullptr;
constinit std::atomic<pid_t> taken_in = 0;

// Returns the taken signal that has this number, or whose stand-in has it; null if there is none.
TakenSignal* find_taken(int signal) {
  for (TakenSignal& taken : taken_signals)
    if (signal == taken.number || signal == taken.stand_in.load(std::memory_order_relaxed))
      return &taken;
  return nullptr;
}

// Requires: find_taken(signal) is not null.
RememberedAction& remembered(int signal) {
  TakenSignal& taken = *find_taken(signal);
  return signal == taken.number ? taken.action : taken.action_of_stand_in;
}

// All signals for which Linux has the handler of this file.
std::array<int, 2 * std::size(taken_signals)> handled_signals() {
  std::array<int, 2 * std::size(taken_signals)> handled;
  std::size_t count = 0;
  for (const TakenSignal& taken : taken_signals) {
    handled[count++] = taken.number;
    handled[count++] = taken.stand_in.load(std::memory_order_relaxed);
  }
  return handled;
}

// SIGSTKFLT is the only signal that is free in every process, so the C library reserves the other
// stand-in. A forked child inherits it.
void reserve_stand_ins() {
  for (TakenSignal& taken : taken_signals) {
    if (taken.stand_in.load(std::memory_order_relaxed) != not_reserved) continue;
    const int reserved = ::__libc_allocate_rtsig(0);
    if (reserved < 0) throw_errno(ENOTSUP, "no real-time signal is free to stand in for SIGBUS");
    taken.stand_in.store(reserved, std::memory_order_relaxed);
    never_block(reserved);
  }
}

Action action_of(const struct sigaction& asked) {
  return {reinterpret_cast<std::uintptr_t>(asked.sa_sigaction),
          static_cast<unsigned>(asked.sa_flags), load_mask(asked.sa_mask)};
}

void on_signal(int signal, siginfo_t* info, void* context) {
  taken_by.load(std::memory_order_acquire)(signal, info, static_cast<ucontext_t*>(context));
}

bool is_ours(const struct sigaction& action) {
  return action.sa_sigaction == on_signal;
}

// Installs on_signal with those flags of the application's action that Linux must know. Returns
// Linux's previous action.
struct sigaction install(int signal, const Action& application) {
  constexpr int mirrored = SA_ONSTACK | SA_RESTART;
  struct sigaction ours {};
  ours.sa_sigaction = on_signal;
  // SA_NODEFER: the application's handler may access memory that only a nested signal makes
  // accessible.
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | (static_cast<int>(application.flags) & mirrored);
  // An ignored signal interrupts no system call, so a handler that ignores it must not either.
  if (application.is_ignored()) ours.sa_flags |= SA_RESTART;
  sigfillset(&ours.sa_mask);
  for (const TakenSignal& taken : taken_signals) sigdelset(&ours.sa_mask, taken.number);
  struct sigaction before {};
  kernel_sigaction(signal, &ours, &before);
  return before;
}

void install_current(int signal) {
  for (;;) {
    const Action action = remembered(signal).get();
    install(signal, action);
    const Action now = remembered(signal).get();
    if (now.flags == action.flags && now.handler == action.handler) return;
  }
}

// Changes the masks of other signals' handlers, which would really block a taken signal.
void translate_masks_of_other_handlers() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (find_taken(signal) != nullptr || kernel_sigaction(signal, nullptr, &action) != 0) continue;
    const std::uint64_t mask = load_mask(action.sa_mask);
    if (mask_for_kernel(mask) == mask) continue;
    store_mask(action.sa_mask, mask_for_kernel(mask));
    kernel_sigaction(signal, &action, nullptr);
  }
}

// On the first call the thread's mask has no stand-ins yet.
void translate_mask_of_this_thread(bool first) {
  sigset_t set;
  sigemptyset(&set);
  kernel_sigprocmask(SIG_SETMASK, nullptr, &set);
  const std::uint64_t mask = load_mask(set);
  store_mask(set, mask_for_kernel(first ? mask : mask_for_application(mask)));
  kernel_sigprocmask(SIG_SETMASK, &set, nullptr);
}

bool queue_to_this_thread(int signal, siginfo_t info) {
  info.si_signo = signal;
  return ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), signal, &info) == 0;
}

bool queue_to_this_process(int signal, siginfo_t info) {
  info.si_signo = signal;
  return ::syscall(SYS_rt_sigqueueinfo, ::getpid(), signal, &info) == 0;
}

// Whether Linux may leave the signal pending: it was sent, or reports failed memory that the thread
// has not accessed. All others come from the thread's current instruction.
bool can_wait(int signal, const siginfo_t& info) {
  return info.si_code <= 0 || (signal == SIGBUS && info.si_code == BUS_MCEERR_AO);
}

bool is_pending(int signal) {
  sigset_t pending;
  sigemptyset(&pending);
  ::syscall(SYS_rt_sigpending, &pending, sizeof(std::uint64_t));
  return (load_mask(pending) & bit_of(signal)) != 0;
}

// Defers a signal that was sent to a thread that blocks it: it is delivered when the thread, or any
// thread for one that was sent to the process, unblocks it.
void put_off(siginfo_t info, int stand_in) {
  // Linux queues a real-time stand-in as often as it is sent, but a pending SIGBUS only once.
  if (stand_in >= __SIGRTMIN && is_pending(stand_in)) return;
  const int saved_errno = errno;
  info.si_errno = put_off_mark;
  const bool for_thread = info.si_code == SI_TKILL || info.si_code > 0;
  // Linux permits only the main thread, which it prefers for signals to a process, to requeue a
  // signal in the name of its sender.
  if (for_thread || !queue_to_this_process(stand_in, info)) queue_to_this_thread(stand_in, info);
  errno = saved_errno;
}

// The same signal is delivered once more when the handler returns to the interrupted code, and then
// has the default action, so a core dump shows that code and its fault. Returning alone would not
// suffice: another thread may have mapped the address meanwhile, and a signal that was sent does
// not recur.
void die_by(int signal, const siginfo_t& info, ucontext_t& context) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  kernel_sigaction(signal, &standard, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  kernel_sigprocmask(SIG_BLOCK, &only, nullptr);
  queue_to_this_thread(signal, info);
  store_mask(context.uc_sigmask, load_mask(context.uc_sigmask) & ~bit_of(signal));
}

// Linux passes all three arguments to both kinds of handlers, and some handlers without SA_SIGINFO
// use them.
__attribute__((no_sanitize("undefined"))) void call(const Action& action, int signal,
                                                    siginfo_t* info, ucontext_t* context) {
  reinterpret_cast<void (*)(int, siginfo_t*, void*)>(action.handler)(signal, info, context);
}

}  // namespace

void take_signals(void (*handler)(int, siginfo_t*, ucontext_t*)) {
  attach_interposers();
  const bool here = taken_in.load(std::memory_order_relaxed) == ::getpid();
  reserve_stand_ins();
  if (!here) taken_here = new ForkMark;
  taken_in = ::getpid();
  const bool first = !signals_are_taken();
  if (first) {
    for (const int signal : handled_signals()) {
      struct sigaction before {};
      kernel_sigaction(signal, nullptr, &before);
      remembered(signal).exchange(action_of(before));
    }
  }
  taken_by = handler;
  for (const int signal : handled_signals()) {
    const struct sigaction before = install(signal, remembered(signal).get());
    if (first && !is_ours(before)) remembered(signal).exchange(action_of(before));
    install_current(signal);
  }
  if (first) translate_masks_of_other_handlers();
  translate_mask_of_this_thread(first);
}

bool signals_are_taken() {
  return taken_by.load(std::memory_order_acquire) != nullptr;
}

void pass_on(int signal, siginfo_t* info, ucontext_t* context) {
  const std::uint64_t interrupted = load_mask(context->uc_sigmask);
  const TakenSignal& taken = *find_taken(signal);
  const bool blocked = signal == taken.number && (interrupted & taken.stand_in_bit()) != 0;
  restore_signal(*info);
  signal = info->si_signo;
  const bool is_fault = !can_wait(signal, *info);
  if (blocked && !is_fault) return put_off(*info, taken.stand_in);

  // If a thread blocks or ignores the signal of a fault, Linux calls no handler and ends the
  // process.
  const Action action = blocked ? Action{} : remembered(signal).take();
  if (action.is_ignored() && !is_fault) return;
  if (action.is_default() || action.is_ignored()) return die_by(signal, *info, *context);

  std::uint64_t inside = interrupted | mask_for_kernel(action.mask);
  if (!action.has(SA_NODEFER)) inside |= taken.stand_in_bit();
  sigset_t set;
  sigemptyset(&set);
  store_mask(set, inside);
  store_mask(context->uc_sigmask, mask_for_application(interrupted));
  kernel_sigprocmask(SIG_SETMASK, &set, nullptr);
  call(action, signal, info, context);
  store_mask(context->uc_sigmask, mask_for_kernel(load_mask(context->uc_sigmask)));
}

std::uint64_t mask_for_kernel(std::uint64_t asked) {
  std::uint64_t mask = asked;
  for (const TakenSignal& taken : taken_signals) {
    mask &= ~(taken.bit() | taken.stand_in_bit());
    if ((asked & taken.bit()) != 0) mask |= taken.stand_in_bit();
  }
  return mask;
}

std::uint64_t mask_for_application(std::uint64_t real) {
  std::uint64_t mask = real;
  for (const TakenSignal& taken : taken_signals)
    if ((real & taken.stand_in_bit()) != 0) mask |= taken.bit();
  return mask;
}

std::uint64_t mask_to_unblock(std::uint64_t asked) {
  std::uint64_t mask = mask_for_kernel(asked);
  for (const TakenSignal& taken : taken_signals) mask |= asked & taken.bit();
  return mask;
}

std::uint64_t mask_to_await(std::uint64_t asked) {
  std::uint64_t mask = asked;
  for (const TakenSignal& taken : taken_signals)
    if ((asked & taken.bit()) != 0) mask |= taken.stand_in_bit();
  return mask;
}

namespace {

bool is_child_of_vfork() {
  return taken_here.load(std::memory_order_relaxed)->is_here() &&
         taken_in.load(std::memory_order_relaxed) != ::getpid();
}

bool has_our_handler(int signal) {
  struct sigaction current {};
  return kernel_sigaction(signal, nullptr, &current) == 0 && is_ours(current);
}

}  // namespace

// A child of vfork() resets the signals that have handlers before it executes a program. Without
// this file's handler, the child's faults until then would end it. So while the child has that
// handler, it is shown the application's action. If that is the default one, a reset to the default
// changes nothing. Other requests of the child go to Linux, and are not recorded for the parent.
bool is_remembered(int signal) {
  if (!signals_are_taken() || find_taken(signal) == nullptr) return false;
  return !is_child_of_vfork() || has_our_handler(signal);
}

void exchange_action(int signal, const struct sigaction* asked, struct sigaction* old) {
  RememberedAction& action = remembered(signal);
  const bool is_recorded = asked != nullptr && !is_child_of_vfork();
  const Action before = is_recorded ? action.exchange(action_of(*asked)) : action.get();
  if (is_recorded)
    install_current(signal);
  else if (asked != nullptr && !(before.is_default() && action_of(*asked).is_default()))
    kernel_sigaction(signal, asked, nullptr);
  if (old == nullptr) return;
  *old = {};
  old->sa_sigaction = reinterpret_cast<void (*)(int, siginfo_t*, void*)>(before.handler);
  old->sa_flags = static_cast<int>(before.flags);
  store_mask(old->sa_mask, before.mask);
}

void restore_signal(siginfo_t& info) {
  if (info.si_errno != put_off_mark) return;
  const TakenSignal* const taken = find_taken(info.si_signo);
  if (taken == nullptr || info.si_signo == taken->number) return;
  info.si_signo = taken->number;
  info.si_errno = 0;
}

}  // namespace wherry::impl
