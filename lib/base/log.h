// The library's log: single lines "wherry: ..." on stderr, each one write(2), so that lines of
// several processes never mix. Used for what a person must know (a kernel crashed, memory was
// touched after it was freed); never for progress.
#pragma once

#include <fmt/core.h>

namespace wherry::impl {

// Writes "wherry: <text>\n" to stderr in one write. Does not touch errno, managed memory, or
// stdio's buffers.
void vlog_line(fmt::string_view format, fmt::format_args values);

template <typename... Args>
void log_line(fmt::format_string<Args...> format, Args&&... args) {
  vlog_line(format, fmt::make_format_args(args...));
}

}  // namespace wherry::impl
