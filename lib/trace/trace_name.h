// The names of traces: WHERRY_TRACE may name a file for each process and for each rank of MPI.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <variant>

namespace wherry::impl {

struct TraceNameError {
  std::string message;  // what is wrong with the pattern, without the pattern itself
};

// The name that a pattern stands for: %p is the process id, %r the rank, %% a percent sign. Other
// letters after a percent sign, or none, are an error.
std::variant<std::string, TraceNameError> trace_file_name(std::string_view pattern, pid_t process,
                                                          unsigned rank);

// The pattern that gives this name in every process: each percent sign is doubled.
std::string trace_pattern_of(std::string_view name);

}  // namespace wherry::impl
