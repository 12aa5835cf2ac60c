// Mutexes that clang's thread-safety analysis understands, and the lock order that the whole
// library follows.
//
// Locks, outermost first; a thread takes them only in this order, and at most one of each kind:
//   api            a context's or device's life.       allowed: everything below, waiting with a limit.
//   peers          who may access whose memory.        allowed: everything below, waiting with a limit.
//   offers         what others may open.               allowed: kernel calls on files.
//   imported       what of others is open here.        allowed: annex.
//   held pages     which pages third parties have.     allowed: everything below, waiting with a limit.
//   pools          which memory pools devices take.    allowed: one pool's.
//   memory pool    what is allocated from one pool.    allowed: everything below, waiting with a limit.
//   own libraries  which kernels the program has by    allowed: one library's.
//                  itself.
//   library        which handles are of a library, or  allowed: giving out handles.
//                  a module.
//   virtual memory what is reserved and mapped by hand. allowed: everything below, waiting with a limit.
//   advising       which allocations may be advised.   allowed: address_space, advice; for who pins also
//                                                      blocks, and waiting with a limit.
//   registering    one registration of memory at a     allowed: adopted, annex.
//                  time.
//   adopted        which memory of the program's is    allowed: kernel calls on that memory, waiting with a
//                  in a file.                          limit. not allowed: forking.
//   annex          what is mapped in the annex.        allowed: agent commands.
//   exclusive      which contexts forbid copies.       allowed: blocks.
//   event          what an event recorded last.        allowed: engine.
//   engine         a device's streams and launches.    allowed: agent commands.
//                                                      not allowed: waiting for a launch.
//   changes        one change of a view at a time.     allowed: blocks, agent, and waiting until its
//                                                      fault message was read.
//   agent          one command to a device process.    allowed: waiting for its answer, with a limit.
//   block          the page states of one 2 MiB block. allowed: kernel calls on that block's pages.
//                                                      not allowed: touching managed memory (the
//                                                      fault would need this lock), waiting, eviction.
//   pool           which blocks one pool holds, and    allowed: nothing else.
//                  which leaves next.
//   shared event   who waits for one.                  allowed: starting a thread, asking who lives.
//   recording      when an event's moment was.         allowed: nothing else.
//   completions    what others finished for an engine. allowed: signalling its descriptor.
//   trace          one end of a trace at a time, and   allowed: waiting for its last write; events.
//                  what waits to be named in it.
//   events         who reads what is recorded.         allowed: nothing else.
//   address_space  what is allocated.                  allowed: nothing else.
//   advice         what was said of pages.             allowed: nothing else.
//   view requests  which views are to be changed.      allowed: nothing else.
//   carriers       who evicts by whole blocks.         allowed: nothing else.
//   audiences      which audiences are in use.         allowed: nothing else.
//   suspects       late touches of freed memory.       allowed: nothing else.
#pragma once

#include <mutex>
#include <shared_mutex>

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

class WHERRY_TSA(capability("mutex")) Mutex {
 public:
  void lock() WHERRY_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() WHERRY_TSA(release_capability()) { mutex_.unlock(); }
  bool try_lock() WHERRY_TSA(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

class WHERRY_TSA(capability("mutex")) SharedMutex {
 public:
  void lock() WHERRY_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() WHERRY_TSA(release_capability()) { mutex_.unlock(); }
  void lock_shared() WHERRY_TSA(acquire_shared_capability()) { mutex_.lock_shared(); }
  void unlock_shared() WHERRY_TSA(release_shared_capability()) { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
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

}  // namespace wherry::impl
