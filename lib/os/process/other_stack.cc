#include "os/process/other_stack.h"

#include <cerrno>

#include "base/page.h"
#include "os/arch/cpu.h"
#include "os/files/fd.h"

namespace wherry::impl {
namespace {

constexpr std::size_t stack_bytes = 256 << 10;

}  // namespace

// The first page stays inaccessible, to stop overflows.
OtherStack::OtherStack() : stack_(Mapping::reserve(page_size + stack_bytes, page_size)) {
  if (const int error = set_access(stack_.address() + page_size, stack_bytes, Access::write))
    throw_errno(error, "cannot make a stack");
}

void OtherStack::call(void (*function)(void*), void* argument) const {
  call_on_stack(stack_.data() + page_size + stack_bytes, function, argument);
}

}  // namespace wherry::impl
