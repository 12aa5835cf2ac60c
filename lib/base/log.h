// The library's log: single lines "wherry: ..." on stderr, each one write(2), so that lines of
// several processes never mix. Used for what a person must know (a kernel crashed, memory was
// touched after it was freed); never for progress.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace wherry::impl {

// Writes "wherry: <text>\n" to stderr in one write. Does not touch errno, managed memory, or
// stdio's buffers.
void write_log_line(std::string_view text);

template <typename... Args>
void log_line(fmt::format_string<Args...> format, Args&&... args) {
  fmt::memory_buffer line;
  fmt::format_to(std::back_inserter(line), format, std::forward<Args>(args)...);
  write_log_line({line.data(), line.size()});
}

}  // namespace wherry::impl
