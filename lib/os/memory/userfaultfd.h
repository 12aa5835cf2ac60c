// One userfaultfd: its ioctls as typed calls. Any thread may call them, also for a descriptor of
// another process. Knows nothing of page states or policy, and never retries on its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "os/files/fd.h"

namespace wherry::impl {

// The ways in which this process may get a userfaultfd, best last.
enum class UffdAccess {
  user_mode_only,  // does not serve faults taken inside system calls
  device,          // /dev/userfaultfd, subject to its file permissions; serves all faults
  full,            // the system call; serves all faults
};

// Whether a userfaultfd of this kind, or none (nullopt), serves faults inside system calls.
inline bool serves_system_calls(std::optional<UffdAccess> access) {
  return access == UffdAccess::device || access == UffdAccess::full;
}

enum class OpStatus {
  ok,
  occupied,      // EEXIST: a page is there already
  incomplete,    // EAGAIN: stopped early after `bytes`; check the state again before continuing
  gone,          // ENOENT: the range is not, or no longer, registered
  process_gone,  // ESRCH: the process has ended
  no_memory,     // ENOSPC, ENOMEM
  unsupported,   // EINVAL: older versions of Linux lack the operation
  absent,        // EFAULT of CONTINUE: the file has no page at this offset
  bad_address,   // EFAULT of a copy: the source is not memory of this process
  held,          // pages stay: a part of their huge page is in use (migration/page_engine.h)
};

struct OpResult {
  OpStatus status = OpStatus::ok;
  std::size_t bytes = 0;  // completed before `status` was determined

  explicit operator bool() const { return status == OpStatus::ok; }
};

const char* to_string(OpStatus status);

// One fault message as read. It only hints where a thread sleeps; the handler decides by the
// block's state.
struct FaultMessage {
  std::uint64_t address = 0;
  std::uint32_t thread = 0;  // 0: unknown
  bool write = false;
  bool write_protect = false;
  bool minor = false;
  bool kind_known = true;  // whether write_protect and minor are valid
  std::uint32_t slot = 0;  // the slot in which the message's source records the fault
};

class Userfaultfd {
 public:
  // Creates a userfaultfd of this process, closed on exec, non-blocking. Throws std::system_error.
  // Requires: permissions() reports that Linux permits it (os/process/permissions.h), because
  // a seccomp filter may kill the caller.
  static Fd create(UffdAccess access);
  // Creates a userfaultfd without exceptions. Returns a descriptor, or -1 with errno set.
  static int try_create(UffdAccess access);
  // Performs only the handshake on a fresh descriptor. Returns 0 and sets `offered` to the features
  // that Linux has, or returns an errno: EINVAL if a required feature is missing.
  [[nodiscard]] static int begin(int fd, std::uint64_t& offered);

  Userfaultfd() = default;
  // Takes a fresh descriptor (of any process) and performs the UFFDIO_API handshake for missing,
  // minor and write-protect faults on shared memory. Throws std::system_error if Linux lacks
  // one of them. With `raises_sigbus` there are no messages about faults: an access to an absent or
  // write-protected page raises SIGBUS with BUS_ADRERR.
  explicit Userfaultfd(Fd fd, bool raises_sigbus = false);

  int fd() const { return fd_.get(); }

  // Starts tracking missing, minor and write-protect faults. Returns 0 or an errno.
  [[nodiscard]] int register_range(std::uintptr_t start, std::size_t bytes) const {
    return register_range(fd(), start, bytes);
  }
  // Does so with a descriptor whose handshake another object has performed.
  [[nodiscard]] static int register_range(int fd, std::uintptr_t start, std::size_t bytes);

  // Stops tracking the range, lifts its write protection, and wakes all threads that sleep there.
  // Returns 0 or an errno.
  [[nodiscard]] int unregister_range(std::uintptr_t start, std::size_t bytes) const;

  // Starts tracking missing pages only. Returns 0 or an errno.
  [[nodiscard]] int register_missing(std::uintptr_t start, std::size_t bytes) const;

  // Starts tracking writes to write-protected pages only. Returns 0 or an errno: EBUSY if another
  // userfaultfd tracks the range.
  [[nodiscard]] int register_writes(std::uintptr_t start, std::size_t bytes) const;

  // Reads one message. Returns nullopt if none is pending, or if the message reports that a mapping
  // has moved; the moving thread waits until that message has been read.
  [[nodiscard]] std::optional<FaultMessage> read_message() const;

  // Copies into the pool that the target maps, and maps the pages: write-protected or writable.
  // Never wakes.
  [[nodiscard]] OpResult copy(std::uintptr_t target, const void* source, std::size_t bytes,
                              bool write_protected) const;
  // Creates zero pages in the pool, and maps them writable. Never wakes.
  [[nodiscard]] OpResult zero(std::uintptr_t target, std::size_t bytes) const;
  // Maps pages that the file holds, writable or write-protected (unsupported before Linux 6.4).
  // Never wakes.
  [[nodiscard]] OpResult map_resident(std::uintptr_t target, std::size_t bytes,
                                      bool write_protected) const;
  [[nodiscard]] OpResult write_protect(std::uintptr_t target, std::size_t bytes) const;
  // Lifts write protection. Never wakes.
  [[nodiscard]] OpResult write_unprotect(std::uintptr_t target, std::size_t bytes) const;
  // Makes every later access raise SIGBUS. Never wakes.
  [[nodiscard]] OpResult poison(std::uintptr_t target, std::size_t bytes) const;
  [[nodiscard]] OpResult wake(std::uintptr_t target, std::size_t bytes) const;

 private:
  Fd fd_;
  bool raises_sigbus_ = false;
  bool has_poison_ = false;
};

}  // namespace wherry::impl
