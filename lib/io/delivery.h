// Reads of data that can be taken only once: a datagram, a terminal's line, an eventfd's count. The
// kernel removes the data from its queue before it finds that the destination page is absent, so a
// read that fails loses the data. Preparing the pages is not enough, because the thread may wait
// for hours after that. Such reads go to private memory of this library first, which then copies to
// the program's memory.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

namespace wherry::io {

// Replaces the managed pieces of an array by private memory; other pieces stay as they are.
class Substitute {
 public:
  // Replaces nothing if the descriptor can deliver the same data again, if no piece is managed
  // memory, or if Linux has no memory. Requires: is_array(pieces, count).
  Substitute(int fd, const iovec* pieces, std::size_t count);
  ~Substitute();
  Substitute(const Substitute&) = delete;
  Substitute& operator=(const Substitute&) = delete;

  bool is_needed() const { return pieces_ != nullptr; }
  // The array to pass to the system call.
  iovec* pieces() const { return pieces_; }
  // Copies the received bytes to the program's memory. `result`: what the system call returned.
  void deliver(ssize_t result) const;

 private:
  const std::size_t count_;
  // start of the private memory: this array, the program's array, then the bytes
  iovec* pieces_ = nullptr;
  std::size_t bytes_ = 0;  // size of the private memory
};

}  // namespace wherry::io
