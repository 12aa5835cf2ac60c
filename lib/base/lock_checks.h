// In test builds (-Dchecks=enabled, the default of builds that are no releases) each thread records
// which locks it holds. The process aborts, with a line that names both locks, when a thread takes
// a lock out of order (base/lock_order.h), takes a second lock of one kind, or waits under a lock
// that forbids it.
//
// The functions may be called in signal handlers. In other builds they are empty.
#pragma once

#include "base/lock_order.h"

namespace wherry::impl {

#if defined(WHERRY_CHECKS)
inline constexpr bool checks_locks = true;

// The calling thread is about to take a lock, and may have to wait for it.
void check_lock(LockOrder order);
// The calling thread has taken a lock, or has let go of it.
void note_locked(LockOrder order);
void note_unlocked(LockOrder order);
// The calling thread is about to wait for another thread or process; it lets go of `released`
// meanwhile.
void check_wait();
void check_wait_without(LockOrder released);
// Whether the calling thread holds a lock of the fault path.
bool holds_lock_of_fault_path();
// In a forked process: the calling thread holds none.
void forget_noted_locks();
#else
inline constexpr bool checks_locks = false;

inline void check_lock(LockOrder) {}
inline void note_locked(LockOrder) {}
inline void note_unlocked(LockOrder) {}
inline void check_wait() {}
inline void check_wait_without(LockOrder) {}
inline void forget_noted_locks() {}
#endif

}  // namespace wherry::impl
