// Which calls of the interposed functions are the program's, and which are made by Wherry itself:
// those go to the C library unchanged.
#pragma once

#include <cerrno>

namespace wherry::run {

// While one of these lives, the calling thread's calls are Wherry's. They nest. The program's errno
// is as before afterwards.
class OwnCalls {
 public:
  OwnCalls() : errno_(errno) { ++depth_; }
  ~OwnCalls() {
    --depth_;
    errno = errno_;
  }
  OwnCalls(const OwnCalls&) = delete;
  OwnCalls& operator=(const OwnCalls&) = delete;

  static bool active() { return depth_ != 0; }
  // All later calls of this thread are Wherry's: a thread of the library.
  static void for_ever() { ++depth_; }

 private:
  const int errno_;
  // In the static TLS block: an access must not allocate.
  [[gnu::tls_model("initial-exec")]] static inline thread_local unsigned depth_ = 0;
};

// Whether the code at this address belongs to a library of Wherry's. The library also maps and
// unmaps memory in signal handlers, on threads of the program. False until they have been found.
bool is_own_code(const void* address);
// Finds where the libraries lie. Call it once, before the program has threads.
void find_own_code();

}  // namespace wherry::run
