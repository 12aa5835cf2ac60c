// Stops the other threads of the calling process and lets them go on, as SIGSTOP and SIGCONT would,
// while the caller itself runs on. A device stops its work this way while its host is stopped.
//
// The threads wait in the handler of a signal that install_thread_pause() takes (SIGRTMAX). A
// thread that blocks this signal is not stopped.
#pragma once

#include <sys/types.h>

#include <span>

namespace wherry::impl {

// Once, before the first ThreadPause.
void install_thread_pause();

// While it lives, the other threads wait. One at a time. The stopped threads may hold any lock,
// malloc's among them: the caller must not wait for one.
class ThreadPause {
 public:
  // `spared`: thread ids that run on, besides the caller.
  explicit ThreadPause(std::span<const pid_t> spared);
  ~ThreadPause();
  ThreadPause(const ThreadPause&) = delete;
  ThreadPause& operator=(const ThreadPause&) = delete;
};

}  // namespace wherry::impl
