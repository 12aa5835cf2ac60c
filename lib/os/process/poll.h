// Waiting for several descriptors, and eventfds and timers to interrupt such a wait.
#pragma once

#include <poll.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include "os/files/fd.h"

namespace wherry::impl {

class Patience;

// poll(2), restarted after EINTR. Returns how many are ready. There is no limit if timeout_ms < 0.
int poll_descriptors(std::span<pollfd> descriptors, int timeout_ms);
// Waits until a descriptor is ready or the patience is over.
int poll_descriptors(std::span<pollfd> descriptors, Patience& patience);
// poll(2) for short limits. Returns 0 also if a signal ends it.
int poll_descriptors_ns(std::span<pollfd> descriptors, std::uint64_t timeout_ns);

// Creates a pipe, closed on exec: the read end and the write end. Throws std::system_error.
std::pair<Fd, Fd> make_pipe();

// Creates a non-blocking eventfd. A call of drain_eventfd() takes all of its signals. Throws
// std::system_error.
Fd make_eventfd();
// Creates an eventfd of which a call of drain_eventfd() takes only one signal.
Fd make_semaphore();
void signal_eventfd(const Fd& eventfd);
// Takes pending signals, or a timer's expiries, and returns their number; 0 if there are none.
std::uint64_t drain_eventfd(const Fd& eventfd);

// Creates a descriptor that is readable while one of `descriptors`, which outlive it, is. Throws
// std::system_error.
Fd make_union(std::initializer_list<int> descriptors);

// Creates a non-blocking timer that is readable once it has expired. Throws std::system_error.
Fd make_timer();
// Has the timer expire at `at_ns` (base/clock.h), at once if that is past. Replaces an earlier
// time.
void set_timer(const Fd& timer, std::uint64_t at_ns);

}  // namespace wherry::impl
