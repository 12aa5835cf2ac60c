#include "trap/trap.h"

#include <iterator>

#include "trap/mprotect_trap.h"
#include "trap/userfaultfd_trap.h"

namespace wherry::impl {
namespace {

constexpr TrapTraits kinds[] = {
    {.kind = TrapKind::userfaultfd,
     .name = "userfaultfd",
     .uses_userfaultfd = true,
     .signals_host = false,
     .signals_devices = false,
     .opens_arena = true},
    {.kind = TrapKind::mprotect,
     .name = "mprotect",
     .uses_userfaultfd = false,
     .signals_host = true,
     .signals_devices = true,
     .opens_arena = false},
    {.kind = TrapKind::sigbus,
     .name = "sigbus",
     .uses_userfaultfd = true,
     .signals_host = true,
     .signals_devices = false,
     .opens_arena = true},
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
  return !traits_of(mode.kind).signals_host && serves_system_calls(mode.userfaultfd);
}

std::string to_string(const TrapMode& mode) {
  const TrapTraits& traits = traits_of(mode.kind);
  const bool user_mode_only = !traits.signals_host && !serves_system_calls(mode);
  return std::string(traits.name) + (user_mode_only ? " in user mode only" : "");
}

std::vector<PoolFiles> Trap::Parts::pool_files() const {
  std::vector<PoolFiles> files;
  for (const Pool& pool : pools) files.push_back(pool.files);
  return files;
}

std::unique_ptr<Trap> make_trap(Trap::Parts parts) {
  switch (parts.mode.kind) {
    case TrapKind::userfaultfd:
    case TrapKind::sigbus:
      return make_userfaultfd_trap(std::move(parts));
    case TrapKind::mprotect:
      return make_mprotect_trap(std::move(parts));
  }
  return nullptr;
}

std::unique_ptr<DeviceTrap> make_device_trap(DeviceTrap::Parts parts) {
  switch (parts.mode.kind) {
    case TrapKind::userfaultfd:
    case TrapKind::sigbus:
      return make_userfaultfd_device_trap(std::move(parts));
    case TrapKind::mprotect:
      return make_mprotect_device_trap(std::move(parts));
  }
  return nullptr;
}

}  // namespace wherry::impl
