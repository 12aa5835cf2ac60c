// One userfaultfd: its ioctls as typed calls. Any thread may call, also for another process's
// descriptor. Knows nothing of page states or policy, and never retries on its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "os/files/fd.h"

namespace wherry::impl {

// How a userfaultfd may be had here, best last.
enum class UffdAccess {
  none,
  user_mode_only,  // does not serve faults taken inside system calls
  device,          // /dev/userfaultfd, which permits by its file permissions; serves all faults
  full,            // the system call; serves all faults
};

inline bool serves_system_calls(UffdAccess access) {
  return access == UffdAccess::device || access == UffdAccess::full;
}

enum class OpStatus {
  ok,
  occupied,      // EEXIST: something is there already
  incomplete,    // EAGAIN: stopped early, only `bytes` were done; look again before going on
  gone,          // ENOENT: the range is not registered (any more)
  process_gone,  // ESRCH: the process has ended
  no_memory,     // ENOSPC, ENOMEM
  unsupported,   // EINVAL of an operation that older kernels lack
  absent,        // EFAULT of CONTINUE: no page in the file at this place
  bad_address,   // EFAULT of a copy: no memory of this process there
};

struct OpResult {
  OpStatus status = OpStatus::ok;
  std::size_t bytes = 0;  // done before `status` was known

  explicit operator bool() const { return status == OpStatus::ok; }
};

const char* to_string(OpStatus status);

// One event as read: a hint where somebody sleeps. Decide from block state.
struct FaultEvent {
  std::uint64_t address = 0;
  std::uint32_t thread = 0;  // 0 when the kernel did not say
  bool write = false;
  bool write_protect = false;
  bool minor = false;
  bool kind_known = true;  // those two are what they say
  std::uint32_t slot = 0;  // where its source remembers it
};

class Userfaultfd {
 public:
  // Creates one for the calling process; closed on exec, non-blocking. Throws std::system_error.
  // Requires: permissions() say that the kernel permits it (os/process/permissions.h), for a filter
  // may kill who asks.
  static Fd create(UffdAccess access);
  // The same without an exception: a descriptor, or -1 and errno.
  static int try_create(UffdAccess access);
  // Only the handshake on a fresh descriptor. Returns 0 and which features the kernel offers, or an
  // errno: EINVAL, one that the library needs is missing.
  [[nodiscard]] static int begin(int fd, std::uint64_t& offered);

  Userfaultfd() = default;
  // Takes a fresh descriptor (of any process) and performs the UFFDIO_API handshake for missing,
  // minor and write-protect faults on shared memory. Throws std::system_error when the kernel lacks
  // one of them.
  // With `raises_sigbus` nobody has to handle faults: a touch of what is absent raises SIGBUS.
  explicit Userfaultfd(Fd fd, bool raises_sigbus = false);

  int fd() const { return fd_.get(); }
  bool has_poison() const { return has_poison_; }

  // Registers missing, minor and write-protect tracking. Returns 0 or an errno.
  [[nodiscard]] int register_range(std::uintptr_t start, std::size_t bytes) const {
    return register_range(fd(), start, bytes);
  }
  // The same with the descriptor alone, after somebody else's handshake.
  [[nodiscard]] static int register_range(int fd, std::uintptr_t start, std::size_t bytes);

  // Tracks nothing there any more, and lifts write protection. Wakes whoever sleeps there. Returns
  // 0 or an errno.
  [[nodiscard]] int unregister_range(std::uintptr_t start, std::size_t bytes) const;

  // Only missing pages are tracked. Returns 0 or an errno.
  [[nodiscard]] int register_missing(std::uintptr_t start, std::size_t bytes) const;

  // Only writes to write-protected pages are tracked. Returns 0 or an errno: EBUSY, somebody else's
  // userfaultfd tracks it.
  [[nodiscard]] int register_writes(std::uintptr_t start, std::size_t bytes) const;

  // Reads one event; nothing when none is pending, or it was that a mapping has moved: reading it
  // is what the moving thread waits for.
  [[nodiscard]] std::optional<FaultEvent> read_event() const;

  // Copies into the pool that the target maps, and maps it: write-protected or writable. Never
  // wakes.
  [[nodiscard]] OpResult copy(std::uintptr_t target, const void* source, std::size_t bytes,
                              bool write_protected) const;
  // Zero pages into the pool, mapped writable. Never wakes.
  [[nodiscard]] OpResult zero(std::uintptr_t target, std::size_t bytes) const;
  // Maps pages that the file holds, writable or write-protected (unsupported: before Linux 6.4).
  // Never wakes.
  [[nodiscard]] OpResult map_resident(std::uintptr_t target, std::size_t bytes,
                                      bool write_protected) const;
  [[nodiscard]] OpResult write_protect(std::uintptr_t target, std::size_t bytes) const;
  // Lifts write protection. Never wakes.
  [[nodiscard]] OpResult write_unprotect(std::uintptr_t target, std::size_t bytes) const;
  // Makes every later touch end in SIGBUS. Never wakes.
  [[nodiscard]] OpResult poison(std::uintptr_t target, std::size_t bytes) const;
  [[nodiscard]] OpResult wake(std::uintptr_t target, std::size_t bytes) const;

 private:
  Fd fd_;
  bool has_poison_ = false;
};

}  // namespace wherry::impl
