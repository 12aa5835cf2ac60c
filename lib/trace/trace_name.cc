#include "trace/trace_name.h"

#include <fmt/core.h>

namespace wherry::impl {

std::variant<std::string, TraceNameError> trace_file_name(std::string_view pattern, pid_t process,
                                                          unsigned rank) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      name += pattern[i];
      continue;
    }
    const std::string_view letter = pattern.substr(++i, 1);
    if (letter == "p")
      name += std::to_string(process);
    else if (letter == "r")
      name += std::to_string(rank);
    else if (letter == "%")
      name += '%';
    else
      return TraceNameError{
          fmt::format("'%{}' is not %p (process), %r (MPI rank) or %% (a percent sign)", letter)};
  }
  return name;
}

std::string trace_pattern_of(std::string_view name) {
  std::string pattern;
  for (const char letter : name) pattern += letter == '%' ? "%%" : std::string(1, letter);
  return pattern;
}

}  // namespace wherry::impl
