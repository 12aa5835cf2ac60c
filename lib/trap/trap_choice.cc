#include "trap/trap_choice.h"

#include <fmt/core.h>

namespace wherry::impl {
namespace {

// Of auto, or of "userfaultfd" where it is permitted.
std::string reason_of(UffdAccess access, const Permissions& permissions) {
  switch (access) {
    case UffdAccess::full:
      return "userfaultfd is permitted, for faults inside system calls too";
    case UffdAccess::device:
      return "/dev/userfaultfd is permitted, for faults inside system calls too";
    case UffdAccess::user_mode_only:
      return fmt::format("userfaultfd for faults inside system calls {}",
                         to_string(permissions[Request::userfaultfd]));
    case UffdAccess::none:
      break;
  }
  return fmt::format("userfaultfd {}", to_string(permissions[Request::userfaultfd_user_mode]));
}

}  // namespace

std::string to_string(const TrapChoice& choice) {
  if (choice.access == UffdAccess::none) return "mprotect";
  return serves_system_calls(choice.access) ? "userfaultfd" : "userfaultfd in user mode only";
}

std::variant<TrapChoice, TrapError> choose_trap(std::string_view setting,
                                                const Permissions& permissions,
                                                std::string_view remedy) {
  const UffdAccess access = permissions.userfaultfd();
  if (setting == "mprotect")
    return TrapChoice{UffdAccess::none, "WHERRY_TRAP=mprotect",
                      access == UffdAccess::none ? std::string(remedy) : "unset WHERRY_TRAP"};
  const bool forced = setting == "userfaultfd";
  if (!forced && !setting.empty() && setting != "auto")
    return TrapError{
        fmt::format("WHERRY_TRAP: '{}' is none of 'userfaultfd', 'mprotect' and 'auto'", setting),
        false};
  const std::string reason = reason_of(access, permissions);
  if (forced && access == UffdAccess::none)
    return TrapError{fmt::format("WHERRY_TRAP=userfaultfd: {}; to enable: {}", reason, remedy),
                     true};
  return TrapChoice{access, reason, std::string(remedy)};
}

}  // namespace wherry::impl
