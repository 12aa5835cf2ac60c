#include "os/process/poll.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <cerrno>

#include "base/patience.h"

namespace wherry::impl {
namespace {

timespec to_timespec(std::uint64_t ns) {
  constexpr std::uint64_t second = 1'000'000'000;
  return {static_cast<time_t>(ns / second), static_cast<long>(ns % second)};
}

}  // namespace

int poll_descriptors(std::span<pollfd> descriptors, int timeout_ms) {
  for (;;) {
    const int ready = ::poll(descriptors.data(), descriptors.size(), timeout_ms);
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

int poll_descriptors(std::span<pollfd> descriptors, Patience& patience) {
  for (;;) {
    const int ready = poll_descriptors(descriptors, patience.next_slice_ms());
    patience.note_wait();
    if (ready != 0 || patience.is_over()) return ready;
  }
}

int poll_descriptors_ns(std::span<pollfd> descriptors, std::uint64_t timeout_ns) {
  const timespec timeout = to_timespec(timeout_ns);
  const int ready = ::ppoll(descriptors.data(), descriptors.size(), &timeout, nullptr);
  return ready < 0 && errno == EINTR ? 0 : ready;
}

std::pair<Fd, Fd> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "cannot make a pipe");
  return {Fd(ends[0]), Fd(ends[1])};
}

Fd make_eventfd() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) throw_errno(errno, "eventfd");
  return fd;
}

Fd make_semaphore() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  if (!fd) throw_errno(errno, "eventfd");
  return fd;
}

void signal_eventfd(const Fd& eventfd) {
  const std::uint64_t one = 1;
  // It fails only if the counter is full, and then the eventfd is signalled already.
  [[maybe_unused]] const ssize_t written = ::write(eventfd.get(), &one, sizeof one);
}

std::uint64_t drain_eventfd(const Fd& eventfd) {
  std::uint64_t value = 0;
  return ::read(eventfd.get(), &value, sizeof value) == sizeof value ? value : 0;
}

Fd make_union(std::initializer_list<int> descriptors) {
  Fd all(::epoll_create1(EPOLL_CLOEXEC));
  if (!all) throw_errno(errno, "epoll_create1");
  for (const int descriptor : descriptors) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(all.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
      throw_errno(errno, "epoll_ctl");
  }
  return all;
}

Fd make_timer() {
  Fd fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!fd) throw_errno(errno, "timerfd_create");
  return fd;
}

void set_timer(const Fd& timer, std::uint64_t at_ns) {
  const itimerspec setting{{}, to_timespec(at_ns)};
  // Fails only for descriptors that are no timers.
  (void)::timerfd_settime(timer.get(), TFD_TIMER_ABSTIME, &setting, nullptr);
}

}  // namespace wherry::impl
