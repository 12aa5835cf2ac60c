#include "machine/arena_size.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/page.h"
#include "machine/topology_text.h"
#include "memory/arena.h"
#include "os/process/resource_limits.h"

namespace wherry::impl {
namespace {

constexpr std::string_view variable = "WHERRY_ARENA";
constexpr std::uint64_t gib = std::uint64_t{1} << 30;

// Address space that does not grow with the arena: fixed bookkeeping, the stacks and heaps of the
// library's threads, and the excess that Mapping::reserve() maps, and unmaps, to align a range.
std::uint64_t fixed_bytes(int processors) {
  constexpr std::uint64_t of_a_processor = std::uint64_t{96} << 20;
  constexpr std::uint64_t of_all = std::uint64_t{384} << 20;
  return of_all + static_cast<std::uint64_t>(processors) * of_a_processor;
}

// The bookkeeping of an arena takes less than this part of its size.
constexpr std::uint64_t bookkeeping_part = 128;

// Rounds down to whole GiB; less than 1 GiB to whole blocks.
std::size_t round_to_arena(std::uint64_t bytes) {
  return static_cast<std::size_t>(round_down(bytes, bytes >= gib ? gib : block_size));
}

// The largest arena that fits; if it is less than min_arena_bytes, none does.
std::size_t largest_that_fits(std::uint64_t available, int processors) {
  const std::uint64_t fixed = fixed_bytes(processors);
  if (available <= fixed) return 0;
  const std::uint64_t parts = Arena::views(processors) * bookkeeping_part + 1;
  return round_to_arena((available - fixed) / parts * bookkeeping_part);
}

std::string too_little_address_space(std::size_t arena, const ArenaSurroundings& of) {
  const std::uint64_t available =
      of.address_space_limit - std::min(of.address_space_limit, of.address_space_in_use);
  const std::size_t fits = largest_that_fits(available, of.processors);
  return fmt::format(
      "cannot start: RLIMIT_AS (ulimit -v) is {}M, {}M of that are in use, and managed memory with "
      "an arena of {} needs {}M "
      "more; raise the limit{}",
      of.address_space_limit >> 20, of.address_space_in_use >> 20, size_text(arena),
      address_space_needed(arena, of.processors) >> 20,
      fits < min_arena_bytes ? std::string()
                             : fmt::format(", or set {}={}", variable, size_text(fits)));
}

}  // namespace

std::uint64_t address_space_needed(std::size_t arena_bytes, int processors) {
  return Arena::views(processors) * arena_bytes + arena_bytes / bookkeeping_part +
         fixed_bytes(processors);
}

ArenaSize choose_arena_size(std::string_view text, const ArenaSurroundings& of) {
  const SizeText parsed = parse_size(variable, text);
  if (const auto* wrong = std::get_if<std::string>(&parsed)) return *wrong;
  const auto& asked = std::get<0>(parsed);
  std::size_t bytes = Arena::default_size(of.memory_bytes, of.processors);
  if (asked) {
    const std::size_t most = Arena::largest_size(of.processors);
    if (asked->value < min_arena_bytes || asked->value > most)
      return topology_error(
          variable, text, asked->position,
          fmt::format("an arena has from {} to {}", size_text(min_arena_bytes), size_text(most)));
    bytes = round_to_arena(asked->value);
  }
  // A pool is a file as large as the arena.
  if (bytes > of.file_size_limit) {
    const std::size_t fits = round_to_arena(of.file_size_limit);
    if (asked || fits < min_arena_bytes)
      return fmt::format(
          "cannot start: RLIMIT_FSIZE (ulimit -f) is {}, and the library's files in memory are as "
          "large as the arena, {}; "
          "raise the limit{}",
          size_text(of.file_size_limit), size_text(asked ? bytes : min_arena_bytes),
          fits < min_arena_bytes ? std::string()
                                 : fmt::format(", or set {}={}", variable, size_text(fits)));
    bytes = fits;
  }
  if (of.address_space_limit != unlimited &&
      of.address_space_in_use + address_space_needed(bytes, of.processors) > of.address_space_limit)
    return too_little_address_space(bytes, of);
  return bytes;
}

}  // namespace wherry::impl
