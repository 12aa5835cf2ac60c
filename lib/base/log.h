// The library's log: single lines "wherry: ..." on stderr. Each line is one write(2), so lines of
// several processes never mix. The log is for events that a person must know about (a kernel
// crashed, freed memory was accessed), never for progress.
//
// Any thread may log, including threads that the program waits for: the line is formatted on the
// stack, and by default the caller never waits for space in stderr. If stderr has no space (a full
// pipe, a stopped terminal), the line is dropped, and the next line that is written reports how
// many were lost.
#pragma once

#include <fmt/core.h>

namespace wherry::impl {

// Longer lines are cut. Linux writes up to this many bytes to a pipe atomically.
inline constexpr std::size_t log_line_max = 4096;

// Writes "wherry: <text>\n" to stderr in one write. Preserves errno, does not access managed memory
// or stdio's buffers, and raises no SIGPIPE. `patience_ms`: how long the line may wait for space in
// stderr before it is dropped.
void vlog_line(fmt::string_view format, fmt::format_args values, int patience_ms = 0);

template <typename... Args>
void log_line(fmt::format_string<Args...> format, Args&&... args) {
  vlog_line(format, fmt::make_format_args(args...));
}

}  // namespace wherry::impl
