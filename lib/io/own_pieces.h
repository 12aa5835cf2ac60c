// Private memory of this library in the place of the program's managed memory, for a call that
// fills or reads memory. Linux uses the private memory, and this library copies the bytes to or
// from the program's memory in user mode, where every fault is served. Private memory never moves,
// so Linux may hold its pages during the call: no bytes are lost, and no other thread waits for the
// pages.
//
// Callable from signal handlers, so the memory is neither from the heap nor on the stack.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <optional>

namespace wherry::io {

// Returns the bytes of all pieces; nullopt if they are more than Linux accepts in a call. Requires:
// is_array(pieces, count).
std::optional<std::size_t> sum_of(const iovec* pieces, std::size_t count);
// Stores in `part` the `bytes` bytes of an array after its first `skip` bytes; `part` has room for
// `count` pieces. Returns how many pieces it got; none of them is empty.
std::size_t cut(const iovec* pieces, std::size_t count, std::size_t skip, std::size_t bytes,
                iovec* part);

class OwnPieces {
 public:
  // Has room for `bytes` bytes, for arrays of `count` pieces, and for an array of `further` pieces
  // for the caller.
  OwnPieces(std::size_t count, std::size_t bytes, std::size_t further = 0);
  ~OwnPieces();
  OwnPieces(const OwnPieces&) = delete;
  OwnPieces& operator=(const OwnPieces&) = delete;

  // False if Linux has no memory. Then no other function may be called.
  bool exist() const { return memory_ != nullptr; }
  // Takes the `bytes` bytes of the program's array after its first `skip` bytes: pieces() becomes
  // this part, with private memory in place of managed memory, at the same place within a page,
  // because some calls need an alignment. Returns the part's length, which is shorter if only the
  // front of a piece is managed, or the room is full.
  std::size_t take(const iovec* pieces, std::size_t count, std::size_t skip, std::size_t bytes);
  // The array to pass to the system call.
  iovec* pieces() const { return own_; }
  std::size_t count() const { return count_; }
  iovec* further() const { return further_; }
  // Copies the program's bytes into the private memory, for a call that reads them.
  void collect() const;
  // Copies received bytes to the program's memory. `result` is the system call's result.
  void deliver(ssize_t result) const;

 private:
  const std::size_t room_;
  void* memory_ = nullptr;
  std::size_t mapped_ = 0;
  // The memory has four parts: the pieces as Linux gets them, the same pieces as the program gave
  // them, the caller's array, and the bytes.
  iovec* own_ = nullptr;
  iovec* theirs_ = nullptr;
  iovec* further_ = nullptr;
  char* bytes_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace wherry::io
