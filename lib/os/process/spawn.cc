// choose_spawn_method() and spawn_process().
#include <dirent.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "os/arch/cpu.h"
#include "os/memory/mapping.h"
#include "os/process/process.h"
#include "os/process/sibling_fork.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

bool has_several_threads() {
  DIR* tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return true;  // the safe answer
  int entries = 0;
  while (::readdir(tasks) != nullptr) ++entries;
  ::closedir(tasks);
  return entries > 3;  // ".", "..", and one thread
}

// Whether an orphaned descendant becomes a child of this process, with a SIGCHLD when it ends.
bool adopts_orphans() {
  int subreaper = 0;
  ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  return ::getpid() == 1 || subreaper != 0;
}

// Whether a debugger or strace traces the calling process.
bool is_traced() {
  std::ifstream status("/proc/self/status");
  constexpr std::string_view name = "TracerPid:";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return std::strtol(line.c_str() + name.size(), nullptr, 10) != 0;
  return true;  // the safe answer
}

// Like fork(), but without an exit signal and without the C library. The C library caches the
// thread's id, so this function passes the address of that cache to Linux, and Linux writes the
// child's id there. If Linux does not report the address, the child's cache has the parent's id.
pid_t clone_without_signal() {
  pid_t* cached_id = nullptr;
  if (::prctl(PR_GET_TID_ADDRESS, &cached_id) != 0) cached_id = nullptr;
  // Linux reports a clone without SIGCHLD to a tracer as a new thread, and gdb treats it as one.
  // CLONE_UNTRACED suppresses the report.
  const unsigned long flags =
      CLONE_UNTRACED | (cached_id == nullptr ? 0 : CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID);
  return clone_process(flags, cached_id);
}

struct Intermediate {
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
  pid_t pid = -1;
  int pidfd = -1;
  int error = 0;
  bool as_sibling = false;  // requested
  bool is_sibling = false;  // result
};

// Runs as a separate process in this process's memory, with its descriptors, while the calling
// thread waits.
int fork_from_intermediate(void* pointer) {
  Intermediate& work = *static_cast<Intermediate*>(pointer);
  work.pid = work.as_sibling ? fork_sibling(work.is_sibling) : ::fork();
  if (work.pid == 0) {
    work.entry(work.argument);
    ::_exit(1);
  }
  if (work.pid < 0) {
    work.error = errno;
    return 0;
  }
  // Opened before the intermediate process ends: after that an orphan may be reaped and its pid
  // reused.
  work.pidfd = static_cast<int>(::syscall(SYS_pidfd_open, work.pid, 0));
  if (work.pidfd < 0) work.error = errno;
  return 0;
}

SpawnedProcess spawn_through_intermediate(bool as_sibling, void (*entry)(void*), void* argument) {
  Intermediate work;
  work.as_sibling = as_sibling;
  work.entry = entry;
  work.argument = argument;
  // The new process starts on a copy of this stack. It is 1 MiB, so that the address mask later
  // hides it there (os/memory/address_mask.h).
  constexpr std::size_t stack_bytes = 1 << 20;
  const Mapping stack = Mapping::reserve(stack_bytes, 4096);
  if (const int error = set_access(stack.address(), stack_bytes, Access::write))
    throw_errno(error, "stack of the intermediate process");
  const pid_t intermediate = ::clone(fork_from_intermediate, stack.data() + stack_bytes,
                                     CLONE_VM | CLONE_VFORK | CLONE_FILES, &work);
  if (intermediate < 0) throw_errno(errno, "cannot start the intermediate process");
  while (::waitpid(intermediate, nullptr, __WCLONE) < 0 && errno == EINTR) {
  }
  if (work.pid < 0 || work.pidfd < 0) {
    if (work.pid > 0) ::kill(work.pid, SIGKILL);
    throw_errno(work.error, "cannot fork a device process");
  }
  SpawnedProcess result;
  result.pid = work.pid;
  result.pidfd = Fd(work.pidfd);
  result.ours = work.is_sibling;
  return result;
}

SpawnedProcess spawn_by_clone(void (*entry)(void*), void* argument) {
  SpawnedProcess result;
  result.pid = clone_without_signal();
  if (result.pid == 0) {
    entry(argument);
    ::_exit(1);
  }
  if (result.pid < 0) throw_errno(errno, "cannot fork a device process");
  result.pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, result.pid, 0)));
  if (!result.pidfd) {
    const int error = errno;
    ::kill(result.pid, SIGKILL);
    ::waitpid(result.pid, nullptr, __WCLONE);
    throw_errno(error, "pidfd_open");
  }
  return result;
}

}  // namespace

SpawnMethod choose_spawn_method() {
  // Under a tracer an intermediate process is better: gdb removes its breakpoints from memory while
  // it detaches from the intermediate, so the device process has none, and strace follows through
  // the intermediate to the device process.
  if (!has_several_threads() && !is_traced()) return SpawnMethod::clone;
  if (can_fork_sibling()) return SpawnMethod::sibling;
  return adopts_orphans() ? SpawnMethod::risky_clone : SpawnMethod::orphan;
}

SpawnedProcess spawn_process(SpawnMethod method, void (*entry)(void*), void* argument) {
  const SignalBlock block;
  const bool bare = method == SpawnMethod::clone || method == SpawnMethod::risky_clone;
  return bare ? spawn_by_clone(entry, argument)
              : spawn_through_intermediate(method == SpawnMethod::sibling, entry, argument);
}

}  // namespace wherry::impl
