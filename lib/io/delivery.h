// What can be taken only once: a datagram, a terminal's line, an eventfd's count. The kernel takes
// it out of its queue before it finds that the memory is not there, so a read that fails has lost
// it, and a thread may have waited for hours since its memory was prepared. Such reads go to memory
// of this library's own, and from there to the program's.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

namespace wherry::io {

// Own memory in the place of the managed pieces of an array; other pieces stay as they are.
class Substitute {
 public:
  // Takes none where the descriptor gives again what was not taken, no piece is managed memory, or
  // Linux has no memory. Requires: is_array.
  Substitute(int fd, const iovec* pieces, std::size_t count);
  ~Substitute();
  Substitute(const Substitute&) = delete;
  Substitute& operator=(const Substitute&) = delete;

  bool is_needed() const { return pieces_ != nullptr; }
  // What the call is to be given.
  iovec* pieces() const { return pieces_; }
  // Carries over what has arrived. `result` is the call's.
  void deliver(ssize_t result) const;

 private:
  const std::size_t count_;
  iovec* pieces_ = nullptr;  // where the own memory begins; the program's pieces, then memory for
                             // bytes, come after
  std::size_t bytes_ = 0;    // of all of it
};

}  // namespace wherry::io
