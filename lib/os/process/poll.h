// Waiting for several descriptors, and an eventfd to interrupt such a wait.
#pragma once

#include <poll.h>

#include <cstdint>
#include <span>
#include <utility>

#include "os/files/fd.h"

namespace wherry::impl {

class Patience;

// poll(2), again after EINTR: how many are ready. timeout_ms < 0: no limit.
int poll_descriptors(std::span<pollfd> descriptors, int timeout_ms);
// The same until the patience is over.
int poll_descriptors(std::span<pollfd> descriptors, Patience& patience);
// The same for short limits; 0 after EINTR.
int poll_descriptors_ns(std::span<pollfd> descriptors, std::uint64_t timeout_ns);

// A pipe: the end to read from and the one to write to, closed on exec. Throws std::system_error.
std::pair<Fd, Fd> make_pipe();

// An eventfd: counts signals, non-blocking. Throws std::system_error.
Fd make_eventfd();
// One that counts: each drain takes one signal.
Fd make_semaphore();
void signal_eventfd(const Fd& eventfd);
// Takes what was signalled since; 0 when nothing was.
std::uint64_t drain_eventfd(const Fd& eventfd);

}  // namespace wherry::impl
