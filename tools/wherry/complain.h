// The tool's output: results on stdout, one line "wherry: ..." on stderr for an error, and the exit
// codes.
#pragma once

#include <string_view>

namespace wherry::tool {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;  // the command failed
inline constexpr int exit_usage = 2;   // the command line is invalid

// Writes "wherry: <what>" as one printable line to stderr. Returns exit_failed.
int complain(std::string_view what);

// Writes all of the text to stdout. Returns exit_ok, or complains and returns exit_failed.
int print_out(std::string_view text);

}  // namespace wherry::tool
