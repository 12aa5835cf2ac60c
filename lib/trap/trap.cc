#include "trap/trap.h"

#include <iterator>

namespace wherry::impl {
namespace {

constexpr TrapTraits kinds[] = {
    {.kind = TrapKind::userfaultfd,
     .name = "userfaultfd",
     .uses_userfaultfd = true,
     .posts_faults = false,
     .opens_arena = true,
     .permits_huge_pages = true},
    {.kind = TrapKind::mprotect,
     .name = "mprotect",
     .uses_userfaultfd = false,
     .posts_faults = true,
     .opens_arena = false,
     .permits_huge_pages = false},
};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < std::size(kinds); ++i)
    if (static_cast<std::size_t>(kinds[i].kind) != i) return false;
  return true;
}
static_assert(is_in_order(), "traits_of() finds a kind by its number");

}  // namespace

std::span<const TrapTraits> all_trap_traits() {
  return kinds;
}

const TrapTraits& traits_of(TrapKind kind) {
  return kinds[static_cast<std::size_t>(kind)];
}

bool serves_system_calls(const TrapMode& mode) {
  // No signal handler runs for a fault inside a system call.
  return !traits_of(mode.kind).posts_faults && serves_system_calls(mode.userfaultfd);
}

std::string to_string(const TrapMode& mode) {
  const TrapTraits& traits = traits_of(mode.kind);
  const bool user_mode_only = !traits.posts_faults && !serves_system_calls(mode);
  return std::string(traits.name) + (user_mode_only ? " in user mode only" : "");
}

}  // namespace wherry::impl
