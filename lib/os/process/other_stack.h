// A stack on which the calling thread runs a function, so that its own stack can be replaced or
// protected meanwhile. Nothing is written to the thread's own stack during the call.
#pragma once

#include <exception>

#include "os/memory/mapping.h"

namespace wherry::impl {

class OtherStack {
 public:
  // Throws std::system_error.
  OtherStack();

  // Calls body(), and rethrows what body() throws. While the thread's own stack is protected,
  // body() must not write to variables there, and signals must be blocked.
  template <typename Body>
  void run(const Body& body) const {
    struct Job {
      const Body& body;
      std::exception_ptr failure = nullptr;
    } job{body};
    call(
        [](void* argument) {
          Job& mine = *static_cast<Job*>(argument);
          try {
            mine.body();
          } catch (...) {
            mine.failure = std::current_exception();
          }
        },
        &job);
    if (job.failure) std::rethrow_exception(job.failure);
  }

 private:
  void call(void (*function)(void*), void* argument) const;

  const Mapping stack_;
};

}  // namespace wherry::impl
