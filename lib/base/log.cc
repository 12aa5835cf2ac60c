#include "base/log.h"

#include <unistd.h>

#include <cerrno>

namespace wherry::impl {

void write_log_line(std::string_view text) {
  const int saved_errno = errno;
  fmt::memory_buffer line;
  fmt::format_to(std::back_inserter(line), "wherry: {}\n", text);
  // A log that cannot be written has nobody to tell.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  errno = saved_errno;
}

}  // namespace wherry::impl
