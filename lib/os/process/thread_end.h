// What a thread does at its end.
#pragma once

#include <pthread.h>

namespace wherry::impl {

// Has a function called when a thread ends, after the destructors of the thread's thread_local
// objects. In contrast to those it needs neither the dynamic loader's lock, which another thread
// may hold while it waits for this one, nor the program's allocator. It is not called at the end of
// the process.
class AtThreadEnd {
 public:
  // If the C library has no free key, the function is never called.
  explicit AtThreadEnd(void (*function)(void*))
      : exists_(::pthread_key_create(&key_, function) == 0) {}

  // The calling thread will call the function with `argument`, which is not null.
  void arm(const void* argument) const {
    if (exists_) (void)::pthread_setspecific(key_, argument);
  }

 private:
  pthread_key_t key_{};
  const bool exists_;
};

}  // namespace wherry::impl
