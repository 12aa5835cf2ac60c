#include "os/process/other_stack.h"

#include <cerrno>

#include "base/page.h"
#include "os/files/fd.h"

namespace wherry::impl {
namespace {

constexpr std::size_t stack_bytes = 256 << 10;

}  // namespace

// The first page stays inaccessible.
OtherStack::OtherStack() : stack_(Mapping::reserve(page_size + stack_bytes, page_size)) {
  if (const int error = set_access(stack_.address() + page_size, stack_bytes, Access::write))
    throw_errno(error, "cannot make a stack");
}

#if defined(__x86_64__)
void OtherStack::call(void (*function)(void*), void* argument) const {
  void* const top = stack_.data() + page_size + stack_bytes;
  asm volatile(
      "movq %%rsp, %%r12\n\t"
      "movq %[top], %%rsp\n\t"
      "callq *%[function]\n\t"
      "movq %%r12, %%rsp\n\t"
      : "+D"(argument)
      : [top] "r"(top), [function] "r"(function)
      : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
        "xmm15", "cc", "memory");
}
#else
#error "OtherStack: how does this processor change its stack?"
#endif

}  // namespace wherry::impl
