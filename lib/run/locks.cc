// Locks that Linux keeps in the program's memory: it finds the threads that wait for a lock of
// several processes by the memory's file, and it writes the owner of robust and of
// priority-inheritance mutexes itself, where it can wait for no fault. So these are in ordinary
// memory.
#include <pthread.h>
#include <semaphore.h>

#include "io/real.h"
#include "run/managed_regions.h"
#include "run/own_calls.h"

namespace wherry::run {
namespace {

// Whether an attribute of a lock has another value than `usual`, with which Linux does not use the
// lock's memory itself.
template <typename Attributes>
bool differs(const Attributes* attributes, int (*get)(const Attributes*, int*), int usual) {
  int value = usual;
  return attributes != nullptr && get(attributes, &value) == 0 && value != usual;
}

template <typename Lock>
void keep_lock_private(const Lock* lock, bool is_wanted) {
  if (is_wanted && !OwnCalls::active()) keep_private(lock, sizeof *lock);
}

}  // namespace
}  // namespace wherry::run

using namespace wherry::run;
using wherry::io::Real;

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

}  // extern "C"
#pragma GCC visibility pop
