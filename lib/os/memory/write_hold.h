// Briefly prevents the other threads of this process from writing to part of its memory, so that
// other memory with the same content can replace it. Uses userfaultfd where the kernel permits it;
// otherwise removes write access and handles SIGSEGV.
//
// While the object lives, the calling thread must not write there either, even indirectly (in
// malloc(), for example): it would wait for itself. Signals are blocked meanwhile. System calls
// that write there wait if userfaultfd serves them (serves_system_calls()). Otherwise they may fail
// with EFAULT, and the library's own calls are retried (HoldWatch).
#pragma once

#include <cstdint>
#include <optional>

#include "os/memory/address_map.h"
#include "os/memory/userfaultfd.h"
#include "os/process/thread.h"

namespace wherry::impl {

class WriteHold {
 public:
  // `trap`: the userfaultfd that stops writers; one hold at a time. Null: protection is used
  // instead. Requires: whole pages, each writable or unmapped.
  WriteHold(AddressRange range, const Userfaultfd* trap);
  WriteHold(const WriteHold&) = delete;
  WriteHold& operator=(const WriteHold&) = delete;
  // Threads that waited retry their writes. Memory that was not replaced is writable as before.
  ~WriteHold();

  // 0, or the errno that says why the memory is not held.
  int error() const { return error_; }

 private:
  int hold_by_userfaultfd();
  int hold_by_protection();

  const AddressRange range_;
  const Userfaultfd* const trap_;
  bool registered_ = false;  // whether the range is registered with the trap
  int error_ = 0;
  std::optional<SignalBlock> no_signals_;
};

// Detects whether a hold may be the reason why a system call could not write to this process's
// memory. Any thread.
class HoldWatch {
 public:
  // Create before the system call.
  HoldWatch();
  // Returns false if there was no hold since the watch began, or if holds last longer than ten
  // seconds. Otherwise waits until no hold is left and returns true: the system call may succeed
  // now. Restarts the watch.
  bool saw_one();

 private:
  std::uint64_t over_;  // the number of holds that had ended when the watch began
};

}  // namespace wherry::impl
