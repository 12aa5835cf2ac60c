// Helper processes that the application does not notice: no SIGCHLD, nothing for wait(-1).
// docs/decisions/device-process.md explains how this works, and what happens where Linux lacks
// support. Also functions by which such a process sets itself up, and by which the host watches and
// ends it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>

#include "os/files/fd.h"
#include "os/memory/address_map.h"

namespace wherry::impl {

class Patience;

// How to fork, most reliable first.
enum class SpawnMethod {
  clone,  // a bare clone without an exit signal, in a process with one thread
  // fork() in an intermediate process; the result is this process's child, without an exit signal
  sibling,
  orphan,  // fork() in an intermediate process; init adopts the result
  // A bare clone while other threads run, used where this process would adopt the orphan. Another
  // thread may hold a lock of malloc or stdio, which stays locked in the new process. That may hang
  // in any call of malloc or stdio, and must not access the C library's list of thread stacks.
  risky_clone,
};
SpawnMethod choose_spawn_method();

struct SpawnedProcess {
  pid_t pid = -1;
  Fd pidfd;  // readable once the process has ended
  // true: this process's child, to be reaped by reap(); false: an orphan that init reaps.
  bool ours = true;
};

// Forks. The new process calls entry(argument), which must not return, with all signals blocked
// (SIGSEGV and SIGBUS possibly excepted). Throws std::system_error.
SpawnedProcess spawn_process(SpawnMethod method, void (*entry)(void*), void* argument);

// Reaps an ended child and returns how it ended. Returns nullopt while it runs, or if it is not a
// child of this process.
struct ProcessEnd {
  bool by_signal = false;
  int code = 0;  // exit code or signal
};
std::optional<ProcessEnd> reap(const Fd& pidfd);
bool has_ended(const Fd& pidfd);
// Waits until the process has ended or the patience is over. Returns whether it has ended.
bool wait_for_end(const Fd& pidfd, Patience patience);
// Sends SIGKILL. Returns 0 or an errno (ESRCH: it has ended; EPERM: not permitted).
int kill_process(const Fd& pidfd);
// A pidfd of the calling process. Throws std::system_error.
Fd open_own_pidfd();
pid_t own_pid();
// Permits the other process to read and write this process's memory where Yama restricts ptrace.
// The usual checks of user ids still apply.
void admit_to_memory(pid_t other);

// Called in the new process. Resets every signal to its default action (except SIGPIPE and SIGTTOU,
// which become ignored), removes the alternate stack, moves the process to a process group of its
// own, which the terminal's keys do not signal, and sets its name.
void detach_from_application(const char* name);
// Drops unwritten data in stdio's buffers: it belongs to the application, which will write it.
void drop_inherited_output();
// Closes all descriptors except the first three and those listed, in ascending order. stdin becomes
// /dev/null.
void keep_descriptors(std::span<const int> kept);
// Continues with function(argument), which must not return, on another stack.
[[noreturn]] void continue_on_stack(AddressRange stack, void (*function)(void*), void* argument);

}  // namespace wherry::impl
