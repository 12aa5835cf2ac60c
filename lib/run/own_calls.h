// Tells which calls of the interposed functions are the program's, and which are Wherry's own:
// those go to the C library unchanged.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cerrno>

#include "base/signal_blocking.h"
#include "io/own_code.h"

namespace wherry::run {

// While an OwnCalls exists, the calling thread's calls count as Wherry's. They nest, and restore
// errno at the end. The program's signal handlers do not run in this thread meanwhile, because
// their calls would count as Wherry's. Nor is the thread cancelled, because Wherry calls
// cancellation points within functions that are none.
class OwnCalls {
 public:
  OwnCalls() : errno_(errno) { begin(); }
  ~OwnCalls() {
    end();
    errno = errno_;
  }
  OwnCalls(const OwnCalls&) = delete;
  OwnCalls& operator=(const OwnCalls&) = delete;

  static bool active() { return depth_ != 0; }
  // For calls that begin in one function and end in another.
  static void begin() {
    if (depth_ == 0) {
      // A handler that interrupts the next call finds depth 0, and leaves it so.
      impl::block_signals();
      ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);
    ++depth_;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  static void end() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (--depth_ != 0) return;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    int before = 0;
    ::pthread_setcancelstate(cancel_state_, &before);
    // Pending signals are delivered here. Their handlers may call begin().
    impl::unblock_signals();
  }
  // All later calls of this thread count as Wherry's, because it is a thread of the library.
  static void for_ever() { ++depth_; }

 private:
  const int errno_;
  // In the static TLS block, because an access must not allocate.
  [[gnu::tls_model("initial-exec")]] static inline thread_local unsigned depth_ = 0;
  [[gnu::tls_model("initial-exec")]] static inline thread_local int cancel_state_ =
      PTHREAD_CANCEL_ENABLE;  // the program's
};

// Calls from Wherry's code count as Wherry's, too: the library also maps and unmaps memory in
// signal handlers, on threads of the program.
using io::is_own_code;

// Whether the code at this address is the C library's or the dynamic loader's. False until
// find_code().
bool is_c_library(const void* address);

// Whose malloc serves the program.
enum class Malloc {
  of_c_library,
  of_another_library,   // such as jemalloc: this library calls it
  before_this_library,  // the program's own: it serves the C library, too
};
// Malloc::of_c_library until the libraries have been found.
Malloc program_malloc();

// Finds where Wherry's libraries and the C library lie, and whose malloc there is. Call it once,
// before the program has threads.
void find_code();

}  // namespace wherry::run
