// A module that a test loads after its device has started. Compiled twice, with another LATE_VALUE.
#include <cstddef>
#include <stdexcept>

namespace {
// The module's own data: right only when it was relocated where it is loaded.
int value = LATE_VALUE;
int* pointer_to_value = &value;
}  // namespace

extern "C" void late_kernel(const void* args, std::size_t, std::size_t) {
  **static_cast<int* const*>(args) = *pointer_to_value;
}

extern "C" void late_kernel_that_throws(const void*, std::size_t, std::size_t) {
  throw std::runtime_error("late");
}
