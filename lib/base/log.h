// The library's log: single lines "wherry: ..." on stderr. Each line is one write(2), so lines of
// several processes never mix.
//
// WHERRY_LOG names the least urgent level that is written. If it is unset, the log has warnings and
// errors only: what a person must know about (a kernel crashed, freed memory was accessed), never
// progress. If it is set, each line also has the time (UTC), the process and the level:
//
//     wherry: 2026-11-26T07:44:01.123456Z 4711 info: device 0 runs in process 4712, with 2 workers
//
// Any thread may log, including threads that the program waits for: the line is formatted on the
// stack, and by default the caller never waits for space in stderr. If stderr has no space (a full
// pipe, a stopped terminal), the line is dropped, and the next line that is written reports how
// many were lost.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string_view>

namespace wherry::impl {

// The levels, the most urgent first.
enum class LogLevel {
  off,
  error,    // something has failed: the program loses work or data, or cannot go on
  warning,  // something is not as the program or its user probably expects
  info,     // starts, ends, settings, and failed calls of the API
  debug,    // also allocations and modules
};
// Returns the level that `text` names, nullopt if there is no such level, and the default level if
// `text` is empty.
std::optional<LogLevel> parse_log_level(std::string_view text);
// Reads WHERRY_LOG again. Otherwise only the first log line reads it. A wrong value counts as
// unset.
void read_log_level();
// Returns whether lines of this level are written. Signal handlers may call it.
bool is_logged(LogLevel level);

// The most bytes of a line; a longer one is cut. Linux writes that many to a pipe atomically.
inline constexpr std::size_t log_line_max = 4096;

// Writes the line to stderr in one write, whatever the level in force. Preserves errno, does not
// access managed memory or stdio's buffers, and raises no SIGPIPE. `patience_ms`: how long the line
// may wait for space in stderr before it is dropped.
void vlog_line(LogLevel level, fmt::string_view format, fmt::format_args values,
               int patience_ms = 0);

// One function for each level. log_line() is for warnings.
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (is_logged(LogLevel::error))
    vlog_line(LogLevel::error, format, fmt::make_format_args(args...));
}
template <typename... Args>
void log_line(fmt::format_string<Args...> format, Args&&... args) {
  if (is_logged(LogLevel::warning))
    vlog_line(LogLevel::warning, format, fmt::make_format_args(args...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (is_logged(LogLevel::info)) vlog_line(LogLevel::info, format, fmt::make_format_args(args...));
}
template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (is_logged(LogLevel::debug))
    vlog_line(LogLevel::debug, format, fmt::make_format_args(args...));
}

}  // namespace wherry::impl
