#include "os/process/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "base/check.h"
#include "base/patience.h"
#include "os/process/poll.h"

namespace wherry::impl {

std::optional<ProcessEnd> reap(const Fd& pidfd) {
  siginfo_t info{};
  for (;;) {
    if (::waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &info, WEXITED | WNOHANG | __WCLONE) == 0)
      break;
    if (errno != EINTR) return {};
  }
  if (info.si_pid == 0) return {};
  return ProcessEnd{info.si_code != CLD_EXITED, info.si_status};
}

bool has_ended(const Fd& pidfd) {
  pollfd polled{pidfd.get(), POLLIN, 0};
  return poll_descriptors({&polled, 1}, 0) > 0;
}

bool wait_for_end(const Fd& pidfd, Patience patience) {
  pollfd polled{pidfd.get(), POLLIN, 0};
  return poll_descriptors({&polled, 1}, patience) > 0;
}

int kill_process(const Fd& pidfd) {
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) == 0 ? 0 : errno;
}

Fd open_own_pidfd() {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!fd) throw_errno(errno, "pidfd_open");
  return fd;
}

pid_t own_pid() {
  return ::getpid();
}

void admit_to_memory(pid_t other) {
  ::prctl(PR_SET_PTRACER, other, 0, 0, 0);  // fails harmlessly if Linux lacks Yama
}

void detach_from_application(const char* name) {
  for (int signal = 1; signal < NSIG; ++signal)
    ::signal(signal, signal == SIGPIPE || signal == SIGTTOU ? SIG_IGN : SIG_DFL);
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
  // The process gets no session of its own: Linux's autogroups divide the CPU between sessions, and
  // on a busy machine a fault that a thread of another session resolved took four times as long.
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, name);
}

void drop_inherited_output() {
  ::__fpurge(stdout);
  ::__fpurge(stderr);
}

void keep_descriptors(std::span<const int> kept) {
  unsigned next = STDERR_FILENO + 1;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number < next) continue;
    if (number > next) ::close_range(next, number - 1, 0);
    next = number + 1;
  }
  ::close_range(next, ~0u, 0);

  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  ::dup2(null, STDIN_FILENO);
  if (null != STDIN_FILENO) ::close(null);
}

namespace {

// makecontext() passes only ints, so each pointer is passed in two halves.
void call_with_pointers(unsigned function_high, unsigned function_low, unsigned argument_high,
                        unsigned argument_low) {
  const auto join = [](unsigned high, unsigned low) {
    return static_cast<std::uintptr_t>(high) << 32 | low;
  };
  const auto function = reinterpret_cast<void (*)(void*)>(join(function_high, function_low));
  function(reinterpret_cast<void*>(join(argument_high, argument_low)));
  ::_exit(1);
}

}  // namespace

void continue_on_stack(AddressRange stack, void (*function)(void*), void* argument) {
  static_assert(sizeof(std::uintptr_t) == 8);
  const auto high = [](std::uintptr_t value) { return static_cast<unsigned>(value >> 32); };
  const auto low = [](std::uintptr_t value) { return static_cast<unsigned>(value); };
  const auto code = reinterpret_cast<std::uintptr_t>(function);
  const auto data = reinterpret_cast<std::uintptr_t>(argument);
  ucontext_t context;
  ::getcontext(&context);
  context.uc_stack.ss_sp = reinterpret_cast<void*>(stack.start);
  context.uc_stack.ss_size = stack.size();
  context.uc_link = nullptr;
  ::makecontext(&context, reinterpret_cast<void (*)()>(call_with_pointers), 4, high(code),
                low(code), high(data), low(data));
  ::setcontext(&context);
  ::_exit(1);
}

}  // namespace wherry::impl
