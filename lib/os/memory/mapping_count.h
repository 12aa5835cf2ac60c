// The number of mappings that a process has, and may have.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace wherry::impl {

// vm.max_map_count, the number of mappings that each process may have; 0 if Linux does not
// report it.
std::uint64_t mappings_max();

// How many mappings a process may have before the library declines remote mappings: an eighth of
// the maximum is left to the program. 0 means no limit.
constexpr std::uint64_t mappings_budget(std::uint64_t mappings_max) {
  return mappings_max - mappings_max / 8;
}

// Returns how many mappings the process has; 0 if Linux does not report it. May be called in a
// signal handler.
std::uint64_t count_mappings(pid_t process);

}  // namespace wherry::impl
