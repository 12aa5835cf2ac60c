// Mutexes for the library. They carry annotations for clang's thread-safety analysis, follow the
// library's lock order (base/lock_order.h), and block signals where the order requires it
// (base/signal_blocking.h).
#pragma once

#include <mutex>
#include <shared_mutex>

#include "base/lock_checks.h"
#include "base/lock_order.h"
#include "base/signal_blocking.h"

#if defined(__clang__)
#define WHERRY_TSA(x) __attribute__((x))
#else
#define WHERRY_TSA(x)
#endif
#define GUARDED_BY(x) WHERRY_TSA(guarded_by(x))
#define REQUIRES(...) WHERRY_TSA(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) WHERRY_TSA(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) WHERRY_TSA(locks_excluded(__VA_ARGS__))

namespace wherry::impl {

// Steps before a mutex is locked and after it is unlocked. Signals are blocked before the lock and
// unblocked after the unlock, so no signal handler of the application runs while the thread holds
// the mutex.
//
// try_lock() does not check the order: a thread that does not wait cannot deadlock.
inline void before_try(LockOrder order) {
  if (blocks_signals(order)) block_signals();
}
inline void before_lock(LockOrder order) {
  check_lock(order);
  before_try(order);
}
inline void after_unlock(LockOrder order) {
  if (blocks_signals(order)) unblock_signals();
}

// A mutex stores its order in a member (KeptOrder). Mutexes of which there are very many have it in
// their type (FixedOrder), which takes no memory.
class KeptOrder {
 public:
  explicit constexpr KeptOrder(LockOrder order) : order_(order) {}
  LockOrder get() const { return order_; }

 private:
  const LockOrder order_;
};
template <LockOrder order>
struct FixedOrder {
  static constexpr LockOrder get() { return order; }
};

template <typename Order, typename Lock>
class WHERRY_TSA(capability("mutex")) BasicMutex {
 public:
  constexpr BasicMutex() = default;
  explicit constexpr BasicMutex(LockOrder order) : order_(order) {}

  void lock() WHERRY_TSA(acquire_capability()) {
    before_lock(order());
    mutex_.lock();
    note_locked(order());
  }
  void unlock() WHERRY_TSA(release_capability()) {
    note_unlocked(order());
    mutex_.unlock();
    after_unlock(order());
  }
  bool try_lock() WHERRY_TSA(try_acquire_capability(true)) {
    before_try(order());
    if (mutex_.try_lock()) {
      note_locked(order());
      return true;
    }
    after_unlock(order());
    return false;
  }
  LockOrder order() const { return order_.get(); }

 private:
  Lock mutex_;
  [[no_unique_address]] Order order_;
};

using Mutex = BasicMutex<KeptOrder, std::mutex>;

class WHERRY_TSA(capability("mutex")) SharedMutex {
 public:
  explicit SharedMutex(LockOrder order) : order_(order) {}

  void lock() WHERRY_TSA(acquire_capability()) {
    if (has_brief_readers(order_)) check_lock_to_write(order_);
    before_lock(order_);
    mutex_.lock();
    note_locked(order_);
  }
  void unlock() WHERRY_TSA(release_capability()) {
    note_unlocked(order_);
    mutex_.unlock();
    after_unlock(order_);
  }
  void lock_shared_briefly() WHERRY_TSA(acquire_shared_capability()) {
    check_lock(order_);
    mutex_.lock_shared();
  }
  void unlock_shared_briefly() WHERRY_TSA(release_shared_capability()) { mutex_.unlock_shared(); }
  void lock_shared() WHERRY_TSA(acquire_shared_capability()) {
    before_lock(order_);
    mutex_.lock_shared();
    note_locked(order_);
  }
  void unlock_shared() WHERRY_TSA(release_shared_capability()) {
    note_unlocked(order_);
    mutex_.unlock_shared();
    after_unlock(order_);
  }

 private:
  std::shared_mutex mutex_;
  const LockOrder order_;
};

template <typename M>
class WHERRY_TSA(scoped_lockable) LockGuard {
 public:
  explicit LockGuard(M& mutex) WHERRY_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~LockGuard() WHERRY_TSA(release_capability()) { mutex_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  M& mutex_;
};

// Unlocks a mutex that the caller has already locked, for example by try_lock().
template <typename M>
class WHERRY_TSA(scoped_lockable) AdoptGuard {
 public:
  explicit AdoptGuard(M& mutex) WHERRY_TSA(requires_capability(mutex)) : mutex_(mutex) {}
  ~AdoptGuard() WHERRY_TSA(release_capability()) { mutex_.unlock(); }
  AdoptGuard(const AdoptGuard&) = delete;
  AdoptGuard& operator=(const AdoptGuard&) = delete;

 private:
  M& mutex_;
};

class WHERRY_TSA(scoped_lockable) WriteGuard {
 public:
  explicit WriteGuard(SharedMutex& mutex) WHERRY_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~WriteGuard() WHERRY_TSA(release_capability()) { mutex_.unlock(); }
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;

 private:
  SharedMutex& mutex_;
};

class WHERRY_TSA(scoped_lockable) ReadGuard {
 public:
  explicit ReadGuard(SharedMutex& mutex) WHERRY_TSA(acquire_shared_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReadGuard() WHERRY_TSA(release_capability()) { mutex_.unlock_shared(); }
  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;

 private:
  SharedMutex& mutex_;
};

// Locks for a lookup that takes no other lock and calls nothing that may fault. Signals are not
// blocked, which saves two system calls. A signal handler may interrupt the reader and take the
// lock shared again, because std::shared_mutex prefers readers (pthread_rwlock_t's default kind in
// glibc). A writer may wait for the interrupted reader, so it holds no lock that the handler's
// faults need (has_brief_readers() in base/lock_order.h).
class WHERRY_TSA(scoped_lockable) BriefReadGuard {
 public:
  explicit BriefReadGuard(SharedMutex& mutex) WHERRY_TSA(acquire_shared_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock_shared_briefly();
  }
  ~BriefReadGuard() WHERRY_TSA(release_capability()) { mutex_.unlock_shared_briefly(); }
  BriefReadGuard(const BriefReadGuard&) = delete;
  BriefReadGuard& operator=(const BriefReadGuard&) = delete;

 private:
  SharedMutex& mutex_;
};

// Call in a forked child if the forking thread held locks: the child's copy of the thread does not
// own them.
inline void forget_locks_of_parent() {
  forget_noted_locks();
  forget_blocked_signals();
}

}  // namespace wherry::impl
