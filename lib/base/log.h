// The library's log: single lines "wherry: ..." on stderr. Each line is one write(2), so lines of
// several processes never mix.
//
// WHERRY_LOG names the least urgent level that is written. Without it the log has warnings and
// errors only: what a person must know about (a kernel crashed, freed memory was accessed), never
// progress. With it each line also has the time (UTC), the process and the level:
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

// The most urgent first.
enum class LogLevel {
  off,
  error,    // something has failed, and the program loses work, data or its end
  warning,  // something is not as the program or its user probably expects
  info,     // starts, ends, settings, and failed calls of the API
  debug,    // also allocations and modules
};
// Returns nullopt if the text names no level. Empty: the level without WHERRY_LOG.
std::optional<LogLevel> parse_log_level(std::string_view text);
// Reads WHERRY_LOG again. The first line of the log reads it anyway. A wrong value counts as unset.
void read_log_level();
// Whether lines of this level are written. Any thread, also in a signal handler.
bool is_logged(LogLevel level);

// Longer lines are cut. Linux writes up to this many bytes to a pipe atomically.
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
