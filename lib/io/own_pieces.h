// Private memory of this library in the place of the program's managed memory, for calls that fill
// memory. Linux writes into the private memory, and this library then copies from there to the
// program's memory in user mode, where every fault is served. Nobody moves private memory, so
// whoever holds its pages during the call blocks nobody and loses nothing.
//
// Callable from signal handlers: the memory is neither from the heap nor from a stack of unknown
// size.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <optional>

namespace wherry::io {

// How many bytes the pieces have; nothing: more than Linux accepts in a call. Requires:
// is_array(pieces, count).
std::optional<std::size_t> sum_of(const iovec* pieces, std::size_t count);
// Stores the part of an array that lies behind its first `skip` bytes, `bytes` long, into `part`,
// which has room for `count` pieces. Returns how many pieces the part has; none is empty.
std::size_t cut(const iovec* pieces, std::size_t count, std::size_t skip, std::size_t bytes,
                iovec* part);

class OwnPieces {
 public:
  // With room for `bytes` bytes, for arrays of `count` pieces, and for an array of `further`
  // pieces, which the caller may use.
  OwnPieces(std::size_t count, std::size_t bytes, std::size_t further = 0);
  ~OwnPieces();
  OwnPieces(const OwnPieces&) = delete;
  OwnPieces& operator=(const OwnPieces&) = delete;

  // False: Linux has no memory. Then no other function may be called.
  bool exist() const { return memory_ != nullptr; }
  // Takes the part of the program's array that lies behind its first `skip` bytes, `bytes` long:
  // pieces() becomes this part, with private memory in place of managed memory, at the same place
  // within a page, because Linux checks the alignment of some calls' memory. Returns the part's
  // length, which is shorter if a piece is managed only in its front, or the room is full.
  std::size_t take(const iovec* pieces, std::size_t count, std::size_t skip, std::size_t bytes);
  // The array to pass to the system call.
  iovec* pieces() const { return own_; }
  std::size_t count() const { return count_; }
  iovec* further() const { return further_; }
  // Copies the bytes of the program's memory there, for a call that reads them.
  void collect() const;
  // Copies the bytes that were received to the program's memory. `result`: what the system call
  // returned.
  void deliver(ssize_t result) const;

 private:
  const std::size_t room_;
  void* memory_ = nullptr;
  std::size_t mapped_ = 0;
  // Parts of the memory: the part as Linux gets it, the same part as the program gave it, an array
  // of the caller, and the bytes.
  iovec* own_ = nullptr;
  iovec* theirs_ = nullptr;
  iovec* further_ = nullptr;
  char* bytes_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace wherry::io
