// Resolves faults on a range of addresses in the faulting thread. The faults raise SIGSEGV (page
// protection) or SIGBUS (a userfaultfd with UFFD_FEATURE_SIGBUS). Every other SIGSEGV and SIGBUS
// goes to the application, as if this library were not present (signal_chain.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace wherry::impl {

struct AccessFault {
  std::uintptr_t address = 0;
  bool write = false;
  // Free space on the alternate stack that the hook runs on; the maximum value if the hook does not
  // run on an alternate stack.
  std::size_t alternate_stack_bytes = std::numeric_limits<std::size_t>::max();
};

// Returns whether the hook resolved the fault, so that the access is retried. Runs on the faulting
// thread, possibly on a small stack, with all signals blocked except SIGSEGV and SIGBUS, and
// possibly while the thread holds any lock. So the hook may call async-signal-safe functions only,
// and must not access memory whose faults it would have to resolve. The caller preserves errno. The
// hook also runs in children of fork() and vfork().
using AccessFaultHook = bool (*)(const AccessFault&);

// Which signal the faults of a range raise. Failed memory raises SIGBUS too, with codes of its own;
// the application must see it in any case.
enum class AccessSignal {
  segv,  // SIGSEGV: no access to the page, or no mapping
  bus,   // SIGBUS with BUS_ADRERR: a userfaultfd that raises SIGBUS
};

// From now on, reads and writes in [start, end) that raise `signal` are offered to `hook` first.
// Another call, also in a forked child, replaces range, signal and hook; during that call no fault
// is offered to either hook. Threads, other than the calling one, that block SIGSEGV or SIGBUS at
// the first call must unblock it before they access the range. Throws std::system_error.
void claim_access_faults(std::uintptr_t start, std::uintptr_t end, AccessSignal signal,
                         AccessFaultHook hook);

// From now on, threads that fault on a write to [start, end) sleep until thaw_writers(), and then
// retry. Between the two calls the caller must keep the memory read-only. One freeze at a time; the
// caller serializes. As for claim_access_faults(), threads must not block SIGSEGV or SIGBUS. Throws
// std::system_error.
void freeze_writers(std::uintptr_t start, std::uintptr_t end);
void thaw_writers();

}  // namespace wherry::impl
