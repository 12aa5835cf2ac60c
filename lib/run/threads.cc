// pthread_create: each new thread of the program attaches itself to the device that the rules say
// (attachment.h), and each thread that the library creates is marked as its own. A stack that the
// program provides becomes ordinary memory: the C library writes to it in a forked child before any
// fork handler runs, and waits there for the thread's end by a futex that Linux finds by the page.
#include <pthread.h>

#include <atomic>
#include <memory>
#include <new>

#include "run/attachment.h"
#include "run/managed_regions.h"
#include "run/own_calls.h"
#include "run/real.h"
#include "run/session.h"
#include "run/settings.h"

namespace wherry::run {
namespace {

using Function = void*(void*);

struct Start {
  Function* function = nullptr;
  void* argument = nullptr;
  unsigned index = 0;
  bool is_own = false;
};

std::atomic<unsigned> threads_created{0};

void keep_stack_private(const pthread_attr_t& attributes) {
  void* stack = nullptr;
  std::size_t bytes = 0;
  // If no stack is set, the C library returns an address whose end wraps.
  const auto start = [&] { return reinterpret_cast<std::uintptr_t>(stack); };
  if (::pthread_attr_getstack(&attributes, &stack, &bytes) == 0 && start() + bytes > start())
    keep_private(stack, bytes);
}

void* run(void* given) {
  const std::unique_ptr<Start> owned(static_cast<Start*>(given));
  const Start start = *owned;
  if (start.is_own)
    OwnCalls::for_ever();
  else if (has_started())
    attach_thread(start.index);
  return start.function(start.argument);
}

}  // namespace
}  // namespace wherry::run

using namespace wherry::run;

#pragma GCC visibility push(default)
extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) noexcept {
  const auto next = Real<"pthread_create",
                         int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>::get();
  if (settings() == nullptr) return next(thread, attributes, function, argument);
  const bool is_own = OwnCalls::active();
  if (!is_own && rules_matter()) (void)is_running();
  if (!is_own && attributes != nullptr) keep_stack_private(*attributes);
  if (!is_own) ManagedRegions::instance().make_copies_anonymous();
  std::unique_ptr<Start> start;
  try {
    start = std::make_unique<Start>();
  } catch (const std::bad_alloc&) {
    return next(thread, attributes, function, argument);
  }
  *start = {function, argument, is_own ? 0 : ++threads_created, is_own};
  const int error = next(thread, attributes, run, start.get());
  if (error == 0) (void)start.release();
  return error;
}

int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  const int error = Real<"pthread_setname_np", int(pthread_t, const char*)>::get()(thread, name);
  if (error == 0 && has_started() && ::pthread_equal(thread, ::pthread_self()))
    attach_renamed_thread();
  return error;
}

}  // extern "C"
#pragma GCC visibility pop
