// An owned file descriptor, and how a failed system call of a starting runtime is reported.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace wherry::impl {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
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
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
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
  Fd duplicate(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!duplicate) throw_errno(errno, "cannot duplicate a descriptor");
  return duplicate;
}

}  // namespace wherry::impl
