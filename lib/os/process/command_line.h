// How this process was started, for reports.
#pragma once

#include <cstddef>
#include <string>

namespace wherry::impl {

// The words of the command line, with spaces between them, as /proc/self/cmdline has them; empty:
// unknown. At most `bytes_max` bytes: a longer one ends with "...".
std::string command_line(std::size_t bytes_max);

}  // namespace wherry::impl
