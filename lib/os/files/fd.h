// An owned file descriptor, and how a failed system call of a starting runtime is reported.
//
// A child that the application forks lets go of all of them at once, whoever holds them: a set of
// their numbers is kept beside. What another thread closes while the child is made is closed after
// that, so that the child's set has it. (What another thread has just opened then, and has not yet
// given to an Fd, stays open in the child.)
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace wherry::impl {

// Takes a number into the set, and out of it; of a negative one nothing happens. Any thread, a few
// instructions.
//
// Returns the number that the descriptor has from now on: another one if it had that of a standard
// stream, which the program has closed. What the program then writes to its standard error must not
// arrive in a file of the library.
[[nodiscard]] int own_descriptor(int fd);
// False: it was not in it. A number too large for the set (2^20) is always taken to be in it.
bool disown_descriptor(int fd);
// Takes it out and closes it; nothing if it is not in the set. Any thread.
void close_descriptor(int fd);
// Around the application's fork(), in the thread that forks.
void begin_fork_of_descriptors();
void end_fork_of_descriptors();
// ... and in the child: closes all that are in the set, which is empty then; an Fd that holds one
// does nothing at its end. Calls only what a signal handler may call.
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

// "Cannot start" is an exception: thrown by constructors and factories, caught once, in the API
// layer.
[[noreturn]] inline void throw_errno(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

// Another descriptor of the same. Throws std::system_error.
inline Fd duplicate_fd(int fd) {
  Fd duplicate(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!duplicate) throw_errno(errno, "cannot duplicate a descriptor");
  return duplicate;
}

}  // namespace wherry::impl
