// Faults on a range of addresses that this library resolves in the faulting thread; every other
// SIGSEGV is the application's, as if nobody were here (signal_chain.h). SIGBUS is left alone: a
// page that may not be used raises SIGSEGV, and SIGBUS, for memory that there is not, is for the
// application to see in any case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace wherry::impl {

struct AccessFault {
  std::uintptr_t address = 0;
  bool write = false;
  // What is left of the alternate stack that the hook runs on; the largest number: it runs on none.
  std::size_t alternate_stack_bytes = std::numeric_limits<std::size_t>::max();
};

// Whether the fault was the hook's, so that the access is tried again. Runs on the faulting thread,
// perhaps on a small stack, with all signals blocked but SIGSEGV and SIGBUS, while any lock may be
// held: async-signal-safe functions only, and no memory whose touch it would have to resolve. errno
// is kept for it. Runs in children of fork() and vfork(), too.
using AccessFaultHook = bool (*)(const AccessFault&);

// From now on reads and writes at [start, end) that fault are offered to `hook` first. Another
// call, also in a forked child, replaces range and hook; meanwhile no fault is offered to either.
// Threads that block SIGSEGV when this is called first, but for the calling one, must open it
// before they touch the range. Throws std::system_error.
void claim_access_faults(std::uintptr_t start, std::uintptr_t end, AccessFaultHook hook);

// From now on threads that fault when they write to [start, end), anywhere, sleep; until
// release_writers(), when they try again. Between the two the memory may not be written, by
// whatever means. One hold at a time; the caller serializes. Threads must not block SIGSEGV, as
// above. Throws std::system_error.
void hold_writers(std::uintptr_t start, std::uintptr_t end);
void release_writers();

}  // namespace wherry::impl
