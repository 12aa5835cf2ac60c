// The library's log: single lines "wherry: ..." on stderr, each one write(2), so that lines of
// several processes never mix. Used for what a person must know (a kernel crashed, memory was
// touched after it was freed); never for progress.
//
// Any thread may log, also one that the program waits for: a line is formatted on the stack and
// never waits for room in stderr. A line that finds none (a full pipe, a stopped terminal) is
// dropped; the next line that finds room says how many were lost.
#pragma once

#include <fmt/core.h>

namespace wherry::impl {

// Longer lines are cut. Linux writes as much to a pipe in one piece.
inline constexpr std::size_t log_line_max = 4096;

// Writes "wherry: <text>\n" to stderr in one write. Does not touch errno, managed memory, or
// stdio's buffers, and raises no SIGPIPE.
// `patience_ms`: how long the line may wait for room before it is dropped.
void vlog_line(fmt::string_view format, fmt::format_args values, int patience_ms = 0);

template <typename... Args>
void log_line(fmt::format_string<Args...> format, Args&&... args) {
  vlog_line(format, fmt::make_format_args(args...));
}

}  // namespace wherry::impl
