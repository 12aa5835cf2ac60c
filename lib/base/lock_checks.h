// In test builds (-Dchecks=enabled, the default of builds that are no releases) each thread records
// which locks it holds. The process aborts with a line that names both locks if a thread takes a
// lock out of order (base/lock_order.h), takes a second lock of one kind, or waits while it holds a
// lock that forbids waiting.
//
// The functions may be called in signal handlers. In other builds they are empty.
#pragma once

#include "base/lock_order.h"

namespace wherry::impl {

#if defined(WHERRY_CHECKS)
inline constexpr bool checks_locks = true;

// Call before the calling thread locks a mutex and may have to wait for it.
void check_lock(LockOrder order);
// Call after the calling thread has locked (unlocked) the mutex.
void note_locked(LockOrder order);
void note_unlocked(LockOrder order);
// Call before the calling thread waits for another thread or process. `released`: a lock that the
// thread releases during the wait.
void check_wait();
void check_wait_without(LockOrder released);
// Returns whether the calling thread holds a lock of the fault path.
bool holds_lock_of_fault_path();
// Call before the calling thread takes the exclusive lock of a mutex that has brief readers
// (has_brief_readers()).
void check_lock_to_write(LockOrder order);
// Call in a forked child. From then on the calling thread counts as holding no lock.
void forget_noted_locks();
#else
inline constexpr bool checks_locks = false;

inline void check_lock(LockOrder) {}
inline void note_locked(LockOrder) {}
inline void note_unlocked(LockOrder) {}
inline void check_wait() {}
inline void check_wait_without(LockOrder) {}
inline void check_lock_to_write(LockOrder) {}
inline void forget_noted_locks() {}
#endif

}  // namespace wherry::impl
