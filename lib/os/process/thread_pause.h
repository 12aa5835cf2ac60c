// Stops the other threads of the calling process and resumes them, like SIGSTOP and SIGCONT, while
// the caller itself runs on. A device process stops its work this way while its host is stopped.
//
// The threads wait in the handler of a signal that install_thread_pause() claims (SIGRTMAX). A
// thread that blocks this signal is not stopped.
#pragma once

#include <sys/types.h>

#include <span>

namespace wherry::impl {

// Call once, before the first ThreadPause.
void install_thread_pause();

// The other threads wait while this object lives. One object at a time. The stopped threads may
// hold any lock, including malloc's, so the caller must not wait for a lock.
class ThreadPause {
 public:
  // `spared`: ids of threads that run on, besides the caller.
  explicit ThreadPause(std::span<const pid_t> spared);
  ~ThreadPause();
  ThreadPause(const ThreadPause&) = delete;
  ThreadPause& operator=(const ThreadPause&) = delete;
};

}  // namespace wherry::impl
