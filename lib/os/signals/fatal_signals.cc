#include "os/signals/fatal_signals.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "os/arch/cpu.h"
#include "os/files/fd.h"
#include "os/signals/kernel_signals.h"

namespace wherry::impl {
namespace {

// Written once, before the handlers are installed.
bool (*installed_handler)(const FatalSignal&) = nullptr;

// Bypasses the interposers, in which a child of vfork() would change what they remember for its
// parent. Linux delivers the raised signal at the latest when the handler returns. It is not enough
// to retry the instruction, because a signal that was sent does not recur.
void die_by(int signal) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  kernel_sigaction(signal, &standard, nullptr);
  ::raise(signal);
}

void on_fatal_signal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  FatalSignal what;
  what.signal = signal;
  what.address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const bool sent = info->si_code <= 0;  // by kill() and the like: si_addr is not valid
  if (sent) what.address = 0;
  what.invalid_access = !sent && (signal == SIGSEGV || signal == SIGBUS);
  what.instruction = instruction_of(*static_cast<const ucontext_t*>(context));
  if (!installed_handler(what)) die_by(signal);
  errno = saved_errno;
}

}  // namespace

void catch_fatal_signals(bool (*handler)(const FatalSignal&)) {
  installed_handler = handler;
  struct sigaction action {};
  action.sa_sigaction = on_fatal_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
    ::sigaction(signal, &action, nullptr);
}

AlternateStack::AlternateStack() {
  // The frame of a signal is large if the CPU has wide vector registers.
  bytes_ = std::max<std::size_t>(static_cast<std::size_t>(::sysconf(_SC_SIGSTKSZ)), 64 << 10);
  start_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start_ == MAP_FAILED) throw_errno(errno, "alternate signal stack");
  stack_t stack{};
  stack.ss_sp = start_;
  stack.ss_size = bytes_;
  ::sigaltstack(&stack, nullptr);
}

AlternateStack::~AlternateStack() {
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
  ::munmap(start_, bytes_);
}

void unblock_all_signals() {
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace wherry::impl
