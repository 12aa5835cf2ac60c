// Memory of the program that Linux uses without a wrapper's knowledge: stacks, on which it stores a
// signal's frame, and buffers of streams, which the C library passes to it by internal calls. Where
// Linux does not serve faults inside system calls, these become ordinary memory.
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

#include "run/managed_regions.h"
#include "run/own_calls.h"
#include "run/real.h"
#include "run/session.h"

namespace wherry::run {
namespace {

void keep_from_linux(const void* memory, std::size_t bytes) {
  if (memory != nullptr && calls_must_be_helped() && !OwnCalls::active())
    keep_private(memory, bytes);
}

void keep_context(const ucontext_t* context) {
  if (context == nullptr || !calls_must_be_helped()) return;
  keep_from_linux(context, sizeof *context);
  keep_from_linux(context->uc_stack.ss_sp, context->uc_stack.ss_size);
}

}  // namespace
}  // namespace wherry::run

using namespace wherry::run;

#pragma GCC visibility push(default)
extern "C" {

int setvbuf(FILE* stream, char* buffer, int mode, std::size_t bytes) noexcept {
  keep_from_linux(buffer, bytes);
  return Real<"setvbuf", int(FILE*, char*, int, std::size_t)>::get()(stream, buffer, mode, bytes);
}

void setbuffer(FILE* stream, char* buffer, std::size_t bytes) noexcept {
  keep_from_linux(buffer, bytes);
  Real<"setbuffer", void(FILE*, char*, std::size_t)>::get()(stream, buffer, bytes);
}

void setbuf(FILE* stream, char* buffer) noexcept {
  keep_from_linux(buffer, BUFSIZ);
  Real<"setbuf", void(FILE*, char*)>::get()(stream, buffer);
}

int sigaltstack(const stack_t* stack, stack_t* old) noexcept {
  if (stack != nullptr && calls_must_be_helped()) keep_from_linux(stack->ss_sp, stack->ss_size);
  return Real<"sigaltstack", int(const stack_t*, stack_t*)>::get()(stack, old);
}

int setcontext(const ucontext_t* next) noexcept {
  keep_context(next);
  return Real<"setcontext", int(const ucontext_t*)>::get()(next);
}

int swapcontext(ucontext_t* current, const ucontext_t* next) noexcept {
  keep_context(next);
  keep_from_linux(current, sizeof *current);
  return Real<"swapcontext", int(ucontext_t*, const ucontext_t*)>::get()(current, next);
}

}  // extern "C"
#pragma GCC visibility pop
