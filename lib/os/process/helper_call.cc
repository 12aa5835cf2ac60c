#include "os/process/helper_call.h"

#include <sanitizer/asan_interface.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "os/memory/mapping.h"
#include "os/process/machine_names.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

struct Call {
  void (*function)(void*);
  void* argument;
};

// A seccomp filter kills with SIGSYS, whose default action is a core dump. The dump, in the
// program's directory, would look like a crash of the program. A limit of one byte also stops dumps
// to a pipe, which a limit of 0 does not.
void forbid_core_dump() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max < 1 ? 0 : 1;
  ::setrlimit(RLIMIT_CORE, &limit);
}

// Has Linux kill the calling process when its time is over. SIGKILL needs no handler and cannot be
// blocked.
void limit_lifetime() {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  int timer = 0;  // Linux's timer id, which the C library hides
  const itimerspec limit{{0, 0}, {helper_limit_s, 0}};
  if (::syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0)
    ::syscall(SYS_timer_settime, timer, 0, &limit, nullptr);
}

int run(void* pointer) {
  const Call& call = *static_cast<const Call*>(pointer);
  ::prctl(PR_SET_NAME, "wherry-try");  // the name in the kernel log if the process is killed
  forbid_core_dump();
  limit_lifetime();
  call.function(call.argument);
  return 0;
}

// Returns the wait status; 0 if another thread's wait for any child has already reaped the process.
int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, __WCLONE) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

void expect_to_be_killed() {
  if (linux_is_older_than(5, 16) && ::prctl(PR_GET_DUMPABLE) == 1) ::prctl(PR_SET_DUMPABLE, 0);
}

HelperEnd call_in_helper(int flags, void (*function)(void*), void* argument) {
  const int caller_errno = errno;  // shared with the helper
  const SignalBlock block;         // inherited, so no signal handler of the application runs in it
  constexpr std::size_t stack_bytes = 1 << 16;
  const Mapping stack = Mapping::zeroed(stack_bytes);
  Call call{function, argument};
  HelperEnd end;
  const int dumpable = ::prctl(PR_GET_DUMPABLE);
  // The memory is shared, which costs less than copying the page tables of a large program. The
  // helper also uses this thread's thread-local variables, while this thread sleeps.
  const pid_t process =
      ::clone(run, stack.data() + stack_bytes, CLONE_VM | CLONE_VFORK | flags, &call);
  if (process < 0) {
    end.start_error = errno;
  } else {
    const int status = wait_for(process);
    // a killed helper never returned from its frames
    ASAN_UNPOISON_MEMORY_REGION(stack.data(), stack_bytes);
    end.killed = WIFSIGNALED(status);
    end.unending = end.killed && WTERMSIG(status) == SIGKILL;
  }
  // The value is set only if the helper changed it: it may be 2, and Linux accepts 0 and 1 only.
  if (::prctl(PR_GET_DUMPABLE) != dumpable) ::prctl(PR_SET_DUMPABLE, dumpable);
  errno = caller_errno;
  return end;
}

}  // namespace wherry::impl
