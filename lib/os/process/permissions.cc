#include "os/process/permissions.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/io_uring.h>
#include <sanitizer/asan_interface.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "os/files/fd.h"
#include "os/memory/mapping.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

using Verdict = Answer::Verdict;

// The lifetime limit of one probing process. It normally needs a tenth of a millisecond.
constexpr std::time_t limit_seconds = 5;

// Shared between the probing process and the thread that waits for it.
struct Attempt {
  Permissions found;
  std::atomic<std::size_t> next = 0;  // the request that is being tried
};

Answer answer_of(int error) {
  return error == 0 ? Answer{Verdict::permitted, 0} : Answer{Verdict::refused, error};
}

Answer try_userfaultfd(UffdAccess access, std::uint64_t& features) {
  const Fd fd(Userfaultfd::try_create(access));
  if (!fd) return answer_of(errno);
  const int error = Userfaultfd::begin(fd.get(), features);
  return error == EINVAL ? Answer{Verdict::too_old, error} : answer_of(error);
}

Answer try_io_uring() {
  io_uring_params params{};
  const Fd ring(static_cast<int>(::syscall(SYS_io_uring_setup, 2, &params)));
  if (!ring) return answer_of(errno);
  // A filter may treat the three system calls differently. This one has nothing to submit.
  if (::syscall(SYS_io_uring_enter, ring.get(), 0, 0, 0, nullptr, 0) < 0) return answer_of(errno);
  unsigned unchanged[2] = {0, 0};
  if (::syscall(SYS_io_uring_register, ring.get(), IORING_REGISTER_IOWQ_MAX_WORKERS, unchanged, 2) <
          0 &&
      errno != EINVAL)
    return answer_of(errno);
  return answer_of(0);
}

Answer try_request(Request request, Permissions& found) {
  switch (request) {
    case Request::userfaultfd:
      return try_userfaultfd(UffdAccess::full, found.userfaultfd_features);
    case Request::userfaultfd_device:
      return try_userfaultfd(UffdAccess::device, found.userfaultfd_features);
    case Request::userfaultfd_user_mode:
      return try_userfaultfd(UffdAccess::user_mode_only, found.userfaultfd_features);
    case Request::io_uring:
      break;
  }
  return try_io_uring();
}

// A filter kills with SIGSYS, whose default action is a core dump; it would look like a crash of
// the running program, in the program's directory. A limit of one byte also stops dumps to a pipe,
// which a limit of 0 does not.
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
  const itimerspec limit{{0, 0}, {limit_seconds, 0}};
  if (::syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0)
    ::syscall(SYS_timer_settime, timer, 0, &limit, nullptr);
}

// The probing process. Runs in the memory of the waiting thread, so it makes system calls only.
int try_the_rest(void* pointer) {
  Attempt& attempt = *static_cast<Attempt*>(pointer);
  ::prctl(PR_SET_NAME, "wherry-try");  // the name in the kernel log if the process is killed
  forbid_core_dump();
  limit_lifetime();
  for (std::size_t i; (i = attempt.next) < request_count; ++attempt.next)
    attempt.found.answers[i] = try_request(static_cast<Request>(i), attempt.found);
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

std::string to_string(const Answer& answer) {
  switch (answer.verdict) {
    case Verdict::not_tried:
      return answer.error == 0
                 ? "was not tried"
                 : fmt::format("could not be tried ({})", std::strerror(answer.error));
    case Verdict::permitted:
      return "is permitted";
    case Verdict::refused:
      return fmt::format("is refused ({})", std::strerror(answer.error));
    case Verdict::too_old:
      return "lacks minor and write-protect faults on shared memory";
    case Verdict::killed:
      return "kills the calling process (a seccomp filter)";
    case Verdict::unending:
      return "is not answered (a seccomp filter)";
  }
  return "?";
}

std::optional<UffdAccess> Permissions::userfaultfd() const {
  if ((*this)[Request::userfaultfd]) return UffdAccess::full;
  if ((*this)[Request::userfaultfd_device]) return UffdAccess::device;
  if ((*this)[Request::userfaultfd_user_mode]) return UffdAccess::user_mode_only;
  return std::nullopt;
}

Permissions try_permissions() {
  const int caller_errno = errno;  // shared with the probing process
  const SignalBlock block;         // inherited, so no signal handler of the application runs there
  constexpr std::size_t stack_bytes = 1 << 16;
  const Mapping stack = Mapping::zeroed(stack_bytes);
  Attempt attempt;
  for (; attempt.next < request_count; ++attempt.next) {
    // The memory is shared, which costs less than copying the page tables of a large program. So
    // are thread-local variables, while this thread sleeps. Descriptors are not shared: those that
    // the probing process leaves open are closed with it.
    const pid_t process =
        ::clone(try_the_rest, stack.data() + stack_bytes, CLONE_VM | CLONE_VFORK, &attempt);
    if (process < 0) {
      // A device process could not start either.
      for (std::size_t i = attempt.next; i < request_count; ++i)
        attempt.found.answers[i] = {Verdict::not_tried, errno};
      break;
    }
    const int status = wait_for(process);
    // a killed process never returned from its frames
    ASAN_UNPOISON_MEMORY_REGION(stack.data(), stack_bytes);
    if (attempt.next == request_count) break;
    const bool by_timer = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    attempt.found.answers[attempt.next] = {by_timer ? Verdict::unending : Verdict::killed, 0};
    if (by_timer) break;  // one timeout is enough
  }
  errno = caller_errno;
  return attempt.found;
}

const Permissions& permissions() {
  static const Permissions found = try_permissions();
  return found;
}

}  // namespace wherry::impl
