// Briefly prevents the other threads of this process from writing to part of its memory, so that
// other memory with the same content can replace it. Uses userfaultfd where Linux permits it;
// otherwise removes write access and handles SIGSEGV.
//
// While the object lives, the calling thread must not write there either, even indirectly (in
// malloc(), for example): it would wait for itself. Signals are blocked meanwhile. System calls
// that write there wait if userfaultfd serves them (serves_system_calls()). Otherwise they may fail
// with EFAULT, and the library's own calls are retried (FreezeWatch).
#pragma once

#include <cstdint>
#include <optional>

#include "os/memory/address_map.h"
#include "os/memory/userfaultfd.h"
#include "os/process/thread.h"

namespace wherry::impl {

class WriteFreeze {
 public:
  // `trap` is the userfaultfd that stops writers, in one freeze at a time. If it is null, page
  // protection stops them. Requires: whole pages, each writable or unmapped.
  WriteFreeze(AddressRange range, const Userfaultfd* trap);
  WriteFreeze(const WriteFreeze&) = delete;
  WriteFreeze& operator=(const WriteFreeze&) = delete;
  // Threads that waited retry their writes. Memory that was not replaced is writable as before.
  ~WriteFreeze();

  // 0, or the errno that says why the memory is not frozen.
  int error() const { return error_; }

 private:
  int freeze_by_userfaultfd();
  int freeze_by_protection();

  const AddressRange range_;
  const Userfaultfd* const trap_;
  bool registered_ = false;  // whether the range is registered with the trap
  int error_ = 0;
  std::optional<SignalBlock> no_signals_;
};

// Detects whether a freeze may be the reason why a system call could not write to this process's
// memory. Any thread.
class FreezeWatch {
 public:
  // Create before the system call.
  FreezeWatch();
  // Returns false if there was no freeze since the watch began, or if freezes last longer than ten
  // seconds. Otherwise waits until no freeze is left and returns true: the system call may succeed
  // now. Restarts the watch.
  bool saw_one();

 private:
  std::uint64_t over_;  // the number of freezes that had ended when the watch began
};

}  // namespace wherry::impl
