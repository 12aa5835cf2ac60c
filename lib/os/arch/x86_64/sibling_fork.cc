#include "os/process/sibling_fork.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#if defined(PR_SET_SYSCALL_USER_DISPATCH)  // headers of Linux 5.11 or later

// The SIGSYS handler returns through this code, the only code whose system calls are never
// intercepted. Linux checks the address behind the syscall instruction, so a no-op follows it.
asm(R"(
.text
.hidden wherry_caught_return
.globl wherry_caught_return
.type wherry_caught_return, @function
wherry_caught_return:
  mov $15, %rax
  syscall
  nop
.hidden wherry_caught_return_end
.globl wherry_caught_return_end
wherry_caught_return_end:
)");
extern "C" void wherry_caught_return();
extern "C" void wherry_caught_return_end();

namespace wherry::impl {
namespace {

// State of a fork_sibling() of this thread. It is in the static thread-local block, because the
// handler must not allocate it.
struct Redirection {
  volatile char selector = SYSCALL_DISPATCH_FILTER_ALLOW;
  volatile bool done = false;
};
[[gnu::tls_model("initial-exec")]] thread_local Redirection redirection;

// Linux's form of struct sigaction, which lets the caller name the restorer.
struct KernelAction {
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};
constexpr unsigned long flag_restorer = 0x04000000;
constexpr std::uint64_t sigsys_bit = std::uint64_t{1} << (SIGSYS - 1);

long call_kernel(long number, const greg_t* regs) {
  long result;
  register long fourth asm("r10") = regs[REG_R10];
  register long fifth asm("r8") = regs[REG_R8];
  register long sixth asm("r9") = regs[REG_R9];
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(regs[REG_RDI]), "S"(regs[REG_RSI]), "d"(regs[REG_RDX]),
                 "r"(fourth), "r"(fifth), "r"(sixth)
               : "rcx", "r11", "memory");
  return result;
}

// Makes the intercepted system call: a fork with CLONE_PARENT added, every other call unchanged.
// The handler runs with the signal mask of the interrupted code, so that changes of the mask take
// effect there. SIGSYS must stay unblocked, or the next intercepted call would be fatal.
void on_caught_call(int, siginfo_t* info, void* pointer) {
  redirection.selector = SYSCALL_DISPATCH_FILTER_ALLOW;
  auto* context = static_cast<ucontext_t*>(pointer);
  greg_t* regs = context->uc_mcontext.gregs;
  const long number = info->si_syscall;
  const bool forks = number == SYS_clone && (regs[REG_RDI] & (CLONE_VM | CLONE_THREAD)) == 0;
  if (forks) {
    // With CLONE_PARENT the new process gets the calling process's exit signal, which is none.
    // SIGCHLD among the flags only tells tracers that this is a fork and not a new thread.
    regs[REG_RDI] |= CLONE_PARENT;
    redirection.done = true;
    regs[REG_RAX] = call_kernel(number, regs);
    return;
  }
  regs[REG_RAX] = call_kernel(number, regs);
  if (number == SYS_rt_sigprocmask) {
    std::uint64_t mask = 0;
    ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &mask, sizeof mask);
    mask &= ~sigsys_bit;
    *reinterpret_cast<std::uint64_t*>(&context->uc_sigmask) = mask;
  }
  redirection.selector = SYSCALL_DISPATCH_FILTER_BLOCK;
}

bool start_catching() {
  const KernelAction action{on_caught_call, SA_SIGINFO | SA_NODEFER | flag_restorer,
                            wherry_caught_return, 0};
  if (::syscall(SYS_rt_sigaction, SIGSYS, &action, nullptr, sizeof action.mask) != 0) return false;
  if (::syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &sigsys_bit, nullptr, sizeof sigsys_bit) != 0)
    return false;
  const auto start = reinterpret_cast<std::uintptr_t>(wherry_caught_return);
  const auto end = reinterpret_cast<std::uintptr_t>(wherry_caught_return_end);
  return ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, start, end - start,
                 &redirection.selector) == 0;
}

void stop_catching() {
  redirection.selector = SYSCALL_DISPATCH_FILTER_ALLOW;
  ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
}

}  // namespace

bool can_fork_sibling() {
  // The selector's address is invalid: a Linux that supports the call reports that and changes
  // nothing.
  return ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, ~0UL) != 0 &&
         errno == EFAULT;
}

pid_t fork_sibling(bool& sibling) {
  redirection.done = false;
  const bool catching = start_catching();
  if (catching) redirection.selector = SYSCALL_DISPATCH_FILTER_BLOCK;
  const pid_t pid = ::fork();
  if (pid == 0) {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    return 0;
  }
  if (catching) stop_catching();
  sibling = redirection.done;
  return pid;
}

}  // namespace wherry::impl

#else

namespace wherry::impl {

bool can_fork_sibling() {
  return false;
}

pid_t fork_sibling(bool& sibling) {
  sibling = false;
  return ::fork();
}

}  // namespace wherry::impl

#endif
