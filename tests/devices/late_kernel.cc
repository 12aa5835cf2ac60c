// A module that a test loads after its device has started. It is compiled several times, each with
// another LATE_VALUE. The third one's constructor takes WHERRY_TEST_LATE_MS in devices.
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <stdexcept>

namespace {
// The module's own data: correct only if the loader relocated it to its load address.
int value = LATE_VALUE;
int* pointer_to_value = &value;

#if LATE_VALUE == 3
// Only the host has this process id.
[[gnu::constructor]] void take_time() {
  const char* ms = std::getenv("WHERRY_TEST_LATE_MS");
  const char* host = std::getenv("WHERRY_TEST_LATE_HOST");
  if (ms != nullptr && host != nullptr && std::atoi(host) != ::getpid())
    ::usleep(static_cast<useconds_t>(std::atoi(ms)) * 1000);
}
#endif
}  // namespace

extern "C" void late_kernel(const void* args, std::size_t, std::size_t) {
  **static_cast<int* const*>(args) = *pointer_to_value;
}

extern "C" void late_kernel_that_throws(const void*, std::size_t, std::size_t) {
  throw std::runtime_error("late");
}
