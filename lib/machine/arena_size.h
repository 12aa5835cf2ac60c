// Chooses the arena's size, once, at initialization: as WHERRY_ARENA says, or as the machine and
// the limits of the process permit. Pure functions, so that tests can describe limits that they do
// not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace wherry::impl {

// What an arena's size depends on.
struct ArenaSurroundings {
  std::uint64_t memory_bytes = 0;  // of the machine
  int processors = 1;
  std::uint64_t file_size_limit = 0;      // os/process/resource_limits.h; ~0: none
  std::uint64_t address_space_limit = 0;  // ~0: none
  std::uint64_t address_space_in_use = 0;
};

// A size in bytes, or one error line without a newline that names the limit, its value, and the
// size needed.
using ArenaSize = std::variant<std::size_t, std::string>;
ArenaSize choose_arena_size(std::string_view text, const ArenaSurroundings& surroundings);

// The address space that the library takes for an arena of this size, with room for its threads.
std::uint64_t address_space_needed(std::size_t arena_bytes, int processors);

inline constexpr std::size_t min_arena_bytes = std::size_t{64} << 20;

}  // namespace wherry::impl
