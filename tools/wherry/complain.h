// The tool's output: results on stdout, one line "wherry: ..." on stderr for an error, and the exit
// codes.
#pragma once

#include <cstdio>
#include <string_view>

namespace wherry::tool {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;  // the command failed
inline constexpr int exit_usage = 2;   // the command line is invalid

// Writes "wherry: <what>" as one printable line to stderr. Returns exit_failed.
int complain(std::string_view what);

// Write all of the text to stdout, or to `file`. Return exit_ok, or complain and return
// exit_failed.
int print_out(std::string_view text);
int print_to(std::FILE* file, std::string_view text);

}  // namespace wherry::tool
