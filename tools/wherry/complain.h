// How the tool speaks: results on stdout, one line "wherry: ..." on stderr when something is wrong,
// and its exit codes.
#pragma once

#include <string_view>

namespace wherry::tool {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;  // the work could not be done
inline constexpr int exit_usage = 2;   // the command line makes no sense

// Writes "wherry: <what>" as one printable line to stderr. Returns exit_failed.
int complain(std::string_view what);

// Writes to stdout, to its end. Returns exit_ok, or complains.
int print_out(std::string_view text);

}  // namespace wherry::tool
