#include "held/gate.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace wherry::test {
namespace {

[[noreturn]] void refused(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

std::uint64_t number_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

}  // namespace

// A forked process has no userfaultfd for its copy of the page, so it makes a gate of its own.
Gate& Gate::of_process() {
  static Gate* gate = nullptr;
  static pid_t owner = 0;
  if (is_forbidden) throw std::runtime_error("no userfaultfd for faults inside system calls");
  if (owner != ::getpid()) {
    gate = new Gate;
    owner = ::getpid();
  }
  return *gate;
}

Gate::Gate() {
  fd_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  if (fd_ < 0) refused("a userfaultfd for faults inside system calls");
  uffdio_api api{};
  api.api = UFFD_API;
  if (::ioctl(fd_, UFFDIO_API, &api) != 0) refused("UFFDIO_API");
  void* const place =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) refused("mmap");
  page_ = static_cast<std::byte*>(place);
  uffdio_register range{};
  range.range = {number_of(page_), bytes};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (::ioctl(fd_, UFFDIO_REGISTER, &range) != 0) refused("UFFDIO_REGISTER");
}

void Gate::close() {
  if (::madvise(page_, bytes, MADV_DONTNEED) != 0) refused("MADV_DONTNEED");
  uffd_msg message;
  while (::read(fd_, &message, sizeof message) > 0) {
  }
  is_open_ = false;
}

bool Gate::wait_for_arrival(int limit_ms) const {
  pollfd polled{fd_, POLLIN, 0};
  return ::poll(&polled, 1, limit_ms) > 0;
}

void Gate::open() {
  open(std::array<std::byte, bytes>{});
}

void Gate::open(std::span<const std::byte, bytes> contents) {
  if (is_open_) return;
  uffdio_copy copy{};
  copy.dst = number_of(page_);
  copy.src = number_of(contents.data());
  copy.len = bytes;
  if (::ioctl(fd_, UFFDIO_COPY, &copy) != 0) refused("UFFDIO_COPY");
  is_open_ = true;
}

}  // namespace wherry::test
