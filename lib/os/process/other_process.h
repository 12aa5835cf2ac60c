// Identifies other processes of this machine, and opens files that they have open.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "os/files/fd.h"
#include "os/files/file_identity.h"

namespace wherry::impl {

// Identifies a process for ever, although Linux reuses pids.
struct ProcessIdentity {
  pid_t pid = -1;
  std::uint64_t start_time = 0;  // clock ticks since the machine started

  bool operator==(const ProcessIdentity&) const = default;
};

struct FoundProcess {
  ProcessIdentity identity;
  int error = 0;  // ESRCH: no such process, or it has ended; other: unknown
};
FoundProcess identify_process(pid_t pid);
// Whether a signal (SIGSTOP, SIGTSTP) has stopped the process, by the state of its first thread.
// Stops by a debugger do not count. Returns false if /proc does not tell. Does not allocate.
bool is_stopped(pid_t pid);
// Whether the first thread of the process waits in Linux where no signal ends the wait (for the
// process's mapping lock, for a disk), or has work to do but maybe no CPU. Returns false if /proc
// does not tell. Does not allocate.
bool is_delayed_by_linux(pid_t pid);
// Identifies the calling process, even if its first thread has ended. Throws std::system_error.
ProcessIdentity own_identity();

// A regular file that another process has open, opened again by this process.
struct OpenedFile {
  Fd fd;
  // ENOENT: no such process or descriptor, or the descriptor refers to another file; EACCES:
  // permission denied; other: a possibly temporary failure.
  int error = 0;
};
// `flags`: O_RDONLY or O_RDWR.
OpenedFile open_file_of(pid_t pid, int descriptor, const FileIdentity& file, int flags);

}  // namespace wherry::impl
