// Mutexes that clang's thread-safety analysis understands, that follow the library's lock order
// (base/lock_order.h), and that hold back signals where the order says so (base/signal_hold.h).
#pragma once

#include <mutex>
#include <shared_mutex>

#include "base/lock_checks.h"
#include "base/lock_order.h"
#include "base/signal_hold.h"

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

// What both kinds of mutex do before they lock and after they unlock. Signals are held back first and let
// through last, so that no handler of the application runs while the mutex is locked.
class LockKind {
 public:
  explicit constexpr LockKind(LockOrder order) : order_(order) {}

  LockOrder order() const { return order_; }
  void before_lock() const {
    check_lock(order_);
    before_try();
  }
  // A thread that only tries cannot wait for ever, in whatever order it does.
  void before_try() const {
    if (blocks_signals(order_)) hold_signals();
  }
  void locked() const { note_locked(order_); }
  void before_unlock() const { note_unlocked(order_); }
  void unlocked() const {
    if (blocks_signals(order_)) release_signals();
  }

 private:
  const LockOrder order_;
};

class WHERRY_TSA(capability("mutex")) Mutex {
 public:
  explicit constexpr Mutex(LockOrder order) : kind_(order) {}

  void lock() WHERRY_TSA(acquire_capability()) {
    kind_.before_lock();
    mutex_.lock();
    kind_.locked();
  }
  void unlock() WHERRY_TSA(release_capability()) {
    kind_.before_unlock();
    mutex_.unlock();
    kind_.unlocked();
  }
  bool try_lock() WHERRY_TSA(try_acquire_capability(true)) {
    kind_.before_try();
    if (mutex_.try_lock()) {
      kind_.locked();
      return true;
    }
    kind_.unlocked();
    return false;
  }
  LockOrder order() const { return kind_.order(); }

 private:
  std::mutex mutex_;
  const LockKind kind_;
};

class WHERRY_TSA(capability("mutex")) SharedMutex {
 public:
  explicit SharedMutex(LockOrder order) : kind_(order) {}

  void lock() WHERRY_TSA(acquire_capability()) {
    kind_.before_lock();
    mutex_.lock();
    kind_.locked();
  }
  void unlock() WHERRY_TSA(release_capability()) {
    kind_.before_unlock();
    mutex_.unlock();
    kind_.unlocked();
  }
  void lock_shared() WHERRY_TSA(acquire_shared_capability()) {
    kind_.before_lock();
    mutex_.lock_shared();
    kind_.locked();
  }
  void unlock_shared() WHERRY_TSA(release_shared_capability()) {
    kind_.before_unlock();
    mutex_.unlock_shared();
    kind_.unlocked();
  }

 private:
  std::shared_mutex mutex_;
  const LockKind kind_;
};

class WHERRY_TSA(scoped_lockable) LockGuard {
 public:
  explicit LockGuard(Mutex& mutex) WHERRY_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~LockGuard() WHERRY_TSA(release_capability()) { mutex_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Mutex& mutex_;
};

// Lets go of a mutex that the caller has locked, by try_lock() for example.
class WHERRY_TSA(scoped_lockable) AdoptGuard {
 public:
  explicit AdoptGuard(Mutex& mutex) WHERRY_TSA(requires_capability(mutex)) : mutex_(mutex) {}
  ~AdoptGuard() WHERRY_TSA(release_capability()) { mutex_.unlock(); }
  AdoptGuard(const AdoptGuard&) = delete;
  AdoptGuard& operator=(const AdoptGuard&) = delete;

 private:
  Mutex& mutex_;
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

// In a process that was forked while its only thread held locks: they are its parent's.
inline void forget_locks_of_parent() {
  forget_noted_locks();
  forget_held_signals();
}

}  // namespace wherry::impl
