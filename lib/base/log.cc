#include "base/log.h"

#include <unistd.h>

#include <cerrno>
#include <string>

namespace wherry::impl {

void vlog_line(fmt::string_view format, fmt::format_args values) {
  const int saved_errno = errno;
  const std::string line = "wherry: " + fmt::vformat(format, values) + "\n";
  // A log that cannot be written has nobody to tell.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  errno = saved_errno;
}

}  // namespace wherry::impl
