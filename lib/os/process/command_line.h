// How this process was started, for reports.
#pragma once

#include <cstddef>
#include <string>

namespace wherry::impl {

// Returns the words of /proc/self/cmdline with spaces between them; nothing if it cannot be read.
// At most `bytes_max` bytes: a longer text is cut and ends with "...".
std::string command_line(std::size_t bytes_max);

}  // namespace wherry::impl
