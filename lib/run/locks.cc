// Locks that Linux uses in the program's memory. It finds the threads that wait for a lock of
// several processes by the memory's file, and it writes the owner of robust and of
// priority-inheritance mutexes itself, where it can wait for no fault. So these locks are in
// ordinary memory.
//
// Where Linux does not serve faults inside system calls, every lock that a thread may wait for is
// in ordinary memory, too: Linux reads the word on which a thread begins to wait, and if it cannot,
// the C library ends the program.
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>
#include <time.h>

#include <cstdint>

#include "run/managed_regions.h"
#include "run/own_calls.h"
#include "run/real.h"
#include "run/session.h"

namespace wherry::run {
namespace {

// Whether an attribute of a lock differs from `usual`, with which Linux does not use the lock's
// memory itself.
template <typename Attributes>
bool differs(const Attributes* attributes, int (*get)(const Attributes*, int*), int usual) {
  int value = usual;
  return attributes != nullptr && get(attributes, &value) == 0 && value != usual;
}

template <typename Lock>
void keep_lock_private(const Lock* lock, bool is_wanted) {
  if (is_wanted && !OwnCalls::active()) keep_private(lock, sizeof *lock);
}

[[gnu::noinline]] void keep_waited_for(std::uintptr_t lock, std::size_t bytes) {
  // The region with the lock of the last call, which stays private.
  [[gnu::tls_model("initial-exec")]] static thread_local ManagedRegions::Range last;
  if ((lock >= last.start && lock < last.end) || OwnCalls::active()) return;
  keep_private(reinterpret_cast<const void*>(lock), bytes);
  if (const auto region = ManagedRegions::instance().private_region(lock)) last = *region;
}

// Called before the calling thread may wait for the lock.
template <typename Lock>
void keep_waited_for(const Lock* lock) {
  const auto address = reinterpret_cast<std::uintptr_t>(lock);
  if (calls_must_be_helped() && ManagedRegions::instance().may_contain(address))
    keep_waited_for(address, sizeof *lock);
}

// Calls a function that waits for a lock, or (below) for two.
template <io::Name name, typename Lock, typename... More>
int wait_for(Lock* lock, More... more) {
  keep_waited_for(lock);
  return Real<name, int(Lock*, More...)>::get()(lock, more...);
}
template <io::Name name, typename Lock, typename Second, typename... More>
int wait_for_both(Lock* lock, Second* second, More... more) {
  keep_waited_for(second);
  keep_waited_for(lock);
  return Real<name, int(Lock*, Second*, More...)>::get()(lock, second, more...);
}

}  // namespace
}  // namespace wherry::run

using namespace wherry::run;

#pragma GCC visibility push(default)
extern "C" {

int pthread_mutex_init(pthread_mutex_t* lock, const pthread_mutexattr_t* attributes) noexcept {
  keep_lock_private(lock,
                    differs(attributes, ::pthread_mutexattr_getpshared, PTHREAD_PROCESS_PRIVATE) ||
                        differs(attributes, ::pthread_mutexattr_getprotocol, PTHREAD_PRIO_NONE) ||
                        differs(attributes, ::pthread_mutexattr_getrobust, PTHREAD_MUTEX_STALLED));
  return Real<"pthread_mutex_init", int(pthread_mutex_t*, const pthread_mutexattr_t*)>::get()(
      lock, attributes);
}

int pthread_cond_init(pthread_cond_t* lock, const pthread_condattr_t* attributes) noexcept {
  keep_lock_private(lock,
                    differs(attributes, ::pthread_condattr_getpshared, PTHREAD_PROCESS_PRIVATE));
  return Real<"pthread_cond_init", int(pthread_cond_t*, const pthread_condattr_t*)>::get()(
      lock, attributes);
}

int pthread_rwlock_init(pthread_rwlock_t* lock, const pthread_rwlockattr_t* attributes) noexcept {
  keep_lock_private(lock,
                    differs(attributes, ::pthread_rwlockattr_getpshared, PTHREAD_PROCESS_PRIVATE));
  return Real<"pthread_rwlock_init", int(pthread_rwlock_t*, const pthread_rwlockattr_t*)>::get()(
      lock, attributes);
}

int pthread_barrier_init(pthread_barrier_t* lock, const pthread_barrierattr_t* attributes,
                         unsigned count) noexcept {
  keep_lock_private(lock,
                    differs(attributes, ::pthread_barrierattr_getpshared, PTHREAD_PROCESS_PRIVATE));
  return Real<"pthread_barrier_init", int(pthread_barrier_t*, const pthread_barrierattr_t*,
                                          unsigned)>::get()(lock, attributes, count);
}

int sem_init(sem_t* lock, int is_shared, unsigned value) noexcept {
  keep_lock_private(lock, is_shared != 0);
  return Real<"sem_init", int(sem_t*, int, unsigned)>::get()(lock, is_shared, value);
}

int pthread_mutex_lock(pthread_mutex_t* lock) noexcept {
  return wait_for<"pthread_mutex_lock">(lock);
}

int pthread_mutex_timedlock(pthread_mutex_t* lock, const timespec* until) noexcept {
  return wait_for<"pthread_mutex_timedlock">(lock, until);
}

int pthread_mutex_clocklock(pthread_mutex_t* lock, clockid_t clock,
                            const timespec* until) noexcept {
  return wait_for<"pthread_mutex_clocklock">(lock, clock, until);
}

int pthread_cond_wait(pthread_cond_t* lock, pthread_mutex_t* mutex) {
  return wait_for_both<"pthread_cond_wait">(lock, mutex);
}

int pthread_cond_timedwait(pthread_cond_t* lock, pthread_mutex_t* mutex, const timespec* until) {
  return wait_for_both<"pthread_cond_timedwait">(lock, mutex, until);
}

int pthread_cond_clockwait(pthread_cond_t* lock, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  return wait_for_both<"pthread_cond_clockwait">(lock, mutex, clock, until);
}

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  return wait_for<"pthread_rwlock_rdlock">(lock);
}

int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  return wait_for<"pthread_rwlock_wrlock">(lock);
}

int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock, const timespec* until) noexcept {
  return wait_for<"pthread_rwlock_timedrdlock">(lock, until);
}

int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock, const timespec* until) noexcept {
  return wait_for<"pthread_rwlock_timedwrlock">(lock, until);
}

int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock,
                               const timespec* until) noexcept {
  return wait_for<"pthread_rwlock_clockrdlock">(lock, clock, until);
}

int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock,
                               const timespec* until) noexcept {
  return wait_for<"pthread_rwlock_clockwrlock">(lock, clock, until);
}

int pthread_barrier_wait(pthread_barrier_t* lock) noexcept {
  return wait_for<"pthread_barrier_wait">(lock);
}

int pthread_once(pthread_once_t* once, void (*function)()) {
  return wait_for<"pthread_once">(once, function);
}

int sem_wait(sem_t* lock) {
  return wait_for<"sem_wait">(lock);
}

int sem_timedwait(sem_t* lock, const timespec* until) {
  return wait_for<"sem_timedwait">(lock, until);
}

int sem_clockwait(sem_t* lock, clockid_t clock, const timespec* until) {
  return wait_for<"sem_clockwait">(lock, clock, until);
}

int mtx_lock(mtx_t* lock) {
  return wait_for<"mtx_lock">(lock);
}

int mtx_timedlock(mtx_t* lock, const timespec* until) {
  return wait_for<"mtx_timedlock">(lock, until);
}

int cnd_wait(cnd_t* lock, mtx_t* mutex) {
  return wait_for_both<"cnd_wait">(lock, mutex);
}

int cnd_timedwait(cnd_t* lock, mtx_t* mutex, const timespec* until) {
  return wait_for_both<"cnd_timedwait">(lock, mutex, until);
}

}  // extern "C"
#pragma GCC visibility pop
