// Keeps the other threads of this process from writing to part of its memory for a moment, so that
// other memory with the same contents can take its place: by userfaultfd where the kernel permits
// one, else by taking the access and catching SIGSEGV.
//
// While it lives the calling thread must not write there either, which it could do without knowing
// in malloc, say: it would wait for itself. Signals are blocked meanwhile. System calls that write
// there wait, where userfaultfd serves them (serves_system_calls); else they may fail with EFAULT,
// and the library's own try again (HoldWatch).
#pragma once

#include <cstdint>
#include <optional>

#include "os/memory/address_map.h"
#include "os/memory/userfaultfd.h"
#include "os/process/thread.h"

namespace wherry::impl {

class WriteHold {
 public:
  // `trap`: what writers are caught with, and one hold at a time; null: nothing but protection.
  // Requires: whole pages that may be written, or are not there.
  WriteHold(AddressRange range, const Userfaultfd* trap);
  WriteHold(const WriteHold&) = delete;
  WriteHold& operator=(const WriteHold&) = delete;
  // Whoever wanted to write tries again. What was not replaced may be written as before.
  ~WriteHold();

  // 0, or why the memory is not held: an errno.
  int error() const { return error_; }

 private:
  int hold_by_userfaultfd();
  int hold_by_protection();

  const AddressRange range_;
  const Userfaultfd* const trap_;
  bool registered_ = false;  // the range, with the trap
  int error_ = 0;
  std::optional<SignalBlock> no_signals_;
};

// Whether a hold may have been the reason why a system call could not write to this process's
// memory. Any thread.
class HoldWatch {
 public:
  // Before the call.
  HoldWatch();
  // True: there was one since, and there is none any more, for which it waits, ten seconds at most.
  // The call may go better now; the watch begins anew.
  bool saw_one();

 private:
  std::uint64_t over_;  // that were over when it began
};

}  // namespace wherry::impl
