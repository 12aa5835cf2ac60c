#include "os/poll.h"

#include <sys/eventfd.h>

#include <cerrno>

namespace wherry::impl {

int poll_descriptors(std::span<pollfd> descriptors, int timeout_ms) {
  for (;;) {
    const int ready = ::poll(descriptors.data(), descriptors.size(), timeout_ms);
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

Fd make_eventfd() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) throw_errno(errno, "eventfd");
  return fd;
}

void signal_eventfd(const Fd& eventfd) {
  const std::uint64_t one = 1;
  // It fails only when the count is full, and then it is signalled.
  [[maybe_unused]] const ssize_t written = ::write(eventfd.get(), &one, sizeof one);
}

std::uint64_t drain_eventfd(const Fd& eventfd) {
  std::uint64_t value = 0;
  return ::read(eventfd.get(), &value, sizeof value) == sizeof value ? value : 0;
}

}  // namespace wherry::impl
