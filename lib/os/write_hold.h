// Keeps the other threads of this process from writing to part of its memory for a moment, so that other memory with the same
// contents can take its place: by userfaultfd where the kernel permits one, else by taking the access and catching SIGSEGV.
//
// While it lives the calling thread must not write there either, which it could do without knowing in malloc, say: it
// would wait for itself. Signals are blocked meanwhile. System calls that write there wait, where userfaultfd serves them
// (serves_system_calls); else they may fail with EFAULT.
#pragma once

#include <optional>

#include "os/address_map.h"
#include "os/thread.h"
#include "os/userfaultfd.h"

namespace wherry::impl {

class WriteHold {
 public:
  // Requires: whole pages that may be written, or are not there.
  WriteHold(AddressRange range, UffdAccess access);
  WriteHold(const WriteHold&) = delete;
  WriteHold& operator=(const WriteHold&) = delete;
  // Whoever wanted to write tries again. What was not replaced may be written as before.
  ~WriteHold();

  // 0, or why the memory is not held: an errno.
  int error() const { return error_; }

 private:
  int hold_by_userfaultfd(UffdAccess access);
  int hold_by_protection();

  const AddressRange range_;
  std::optional<Userfaultfd> trap_;
  int error_ = 0;
  std::optional<SignalBlock> no_signals_;
};

}  // namespace wherry::impl
