// An owned file descriptor, and the exception for system calls that fail while the runtime starts.
//
// A child that the application forks closes all the library's descriptors at once. For this purpose
// the library keeps a set of their numbers. If another thread closes a descriptor during the fork,
// the close is postponed until the child exists, so that the child's set still contains it. (A
// descriptor that another thread has just opened and not yet passed to an Fd stays open in the
// child.)
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace wherry::impl {

// Adds a descriptor to the set of the library's descriptors. Negative numbers are ignored. Any
// thread may call it; it takes a few instructions.
//
// Returns the number that the descriptor has from now on. It differs if the number was that of a
// standard stream, which the program has closed: the program's later writes to its standard error
// must not go to a file of the library.
[[nodiscard]] int own_descriptor(int fd);
// Removes a number from the set. Returns false if it was not in the set. Numbers too large for the
// set (2^20) always count as members.
bool disown_descriptor(int fd);
// Removes the descriptor from the set and closes it; no effect if it is not in the set. Any thread.
void close_descriptor(int fd);
// Called around the application's fork(), in the thread that forks.
void begin_fork_of_descriptors();
void end_fork_of_descriptors();
// Called in the child after fork(): closes all descriptors in the set and empties it, so an Fd that
// holds one does nothing when it is destroyed. Async-signal-safe.
void close_own_descriptors();

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(own_descriptor(fd)) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    disown_descriptor(fd_);
    return std::exchange(fd_, -1);
  }
  void reset() {
    if (fd_ >= 0) close_descriptor(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

// Reports that the runtime cannot start. Constructors and factories throw this exception; the API
// layer catches it once.
[[noreturn]] inline void throw_errno(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

// Duplicates a descriptor. Throws std::system_error.
inline Fd duplicate_fd(int fd) {
  Fd duplicate(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!duplicate) throw_errno(errno, "cannot duplicate a descriptor");
  return duplicate;
}

}  // namespace wherry::impl
