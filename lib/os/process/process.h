// Forked helper processes that the application never notices: no SIGCHLD, nothing for wait(-1). How
// that is done, and what happens where the kernel cannot do it: docs/decisions/device-process.md.
// Also what such a process does to itself first, and how the host watches and ends it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>

#include "os/files/fd.h"
#include "os/memory/address_map.h"

namespace wherry::impl {

class Patience;

// How to fork, from the surest to the last resort.
enum class SpawnMethod {
  clone,    // we have one thread: a bare clone without an exit signal
  sibling,  // fork() in an intermediate process; the result is our child, without an exit signal
  orphan,   // the same where the kernel offers less: init adopts the result
  // A bare clone while other threads run, where an orphan would come back to us. One of them may
  // hold a lock of malloc or stdio, which stays locked in the new process: it may hang at any such
  // call, and must not touch the stacks' bookkeeping.
  risky_clone,
};
SpawnMethod choose_spawn_method();

struct SpawnedProcess {
  pid_t pid = -1;
  Fd pidfd;  // readable once it has ended
  // Our child, to be reaped by reap(); otherwise an orphan that init reaps.
  bool ours = true;
};

// Forks; the new process calls entry(argument), which must not return, with all signals blocked
// (SIGSEGV and SIGBUS perhaps not). Throws std::system_error.
SpawnedProcess spawn_process(SpawnMethod method, void (*entry)(void*), void* argument);

// How an ended child ended; reaps it. Nothing while it runs, or when it is not our child.
struct ProcessEnd {
  bool by_signal = false;
  int code = 0;  // exit code or signal
};
std::optional<ProcessEnd> reap(const Fd& pidfd);
bool has_ended(const Fd& pidfd);
// Waits for its end until the patience is over. Returns whether it has ended.
bool wait_for_end(const Fd& pidfd, Patience patience);
// SIGKILL. Returns 0 or an errno (ESRCH: it has ended; EPERM: the caller may not).
int kill_process(const Fd& pidfd);
// Of the calling process. Throws std::system_error.
Fd open_own_pidfd();
pid_t own_pid();
// From now on that process may read and write this one's memory, as far as users go, where Yama
// keeps processes apart.
void admit_to_memory(pid_t other);

// For the new process. Default disposition for every signal (but SIGPIPE and SIGTTOU, which are
// ignored) and no alternate stack; a process group of its own, out of reach of the terminal's keys;
// its name.
void detach_from_application(const char* name);
// Drops what stdio still holds in its buffers: it is the application's, and will be written there.
void drop_inherited_output();
// Closes all descriptors but the first three and those listed; stdin becomes /dev/null.
void keep_descriptors(std::span<const int> kept);
// Goes on with function(argument), which must not return, on another stack.
[[noreturn]] void continue_on_stack(AddressRange stack, void (*function)(void*), void* argument);

}  // namespace wherry::impl
