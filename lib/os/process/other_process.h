// Other processes of this machine: which one a number means, and the files that they have open.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "os/files/fd.h"
#include "os/files/file_identity.h"

namespace wherry::impl {

// Numbers of processes are used again, this is not.
struct ProcessIdentity {
  pid_t pid = -1;
  std::uint64_t start_time = 0;  // clock ticks since the machine started

  bool operator==(const ProcessIdentity&) const = default;
};

struct FoundProcess {
  ProcessIdentity identity;
  int error =
      0;  // ESRCH: there is no such process, or it has ended; any other: the kernel does not tell
};
FoundProcess identify_process(pid_t pid);
// Whether it is stopped by a signal (SIGSTOP, SIGTSTP), as its first thread says. A debugger's
// stops do not count. False where /proc does not tell. Does not allocate.
bool is_stopped(pid_t pid);
// The calling one, also while its first thread has ended. Throws std::system_error.
ProcessIdentity own_identity();

// A regular file that another process has open, opened anew.
struct OpenedFile {
  Fd fd;
  // ENOENT: there is no such process or descriptor, or it leads to another file; EACCES: it is not
  // to be had; any other: it may be, but not now.
  int error = 0;
};
// `flags`: O_RDONLY or O_RDWR.
OpenedFile open_file_of(pid_t pid, int descriptor, const FileIdentity& file, int flags);

}  // namespace wherry::impl
