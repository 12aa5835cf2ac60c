#include "trap/trap_choice.h"

#include <fmt/core.h>

#include <algorithm>

namespace wherry::impl {
namespace {

// Says why `access` is the best permitted userfaultfd, or, if it is nullopt, why there is none.
std::string reason_of(std::optional<UffdAccess> access, const Permissions& permissions) {
  if (!access)
    return fmt::format("userfaultfd {}", to_string(permissions[Request::userfaultfd_user_mode]));
  switch (*access) {
    case UffdAccess::full:
      return "userfaultfd is permitted, for faults inside system calls too";
    case UffdAccess::device:
      return "/dev/userfaultfd is permitted, for faults inside system calls too";
    case UffdAccess::user_mode_only:
      break;
  }
  return fmt::format("userfaultfd for faults inside system calls {}",
                     to_string(permissions[Request::userfaultfd]));
}

const TrapTraits* find_kind(std::string_view name) {
  const auto kinds = all_trap_traits();
  const auto found = std::ranges::find(kinds, name, &TrapTraits::name);
  return found == kinds.end() ? nullptr : &*found;
}

std::string quoted_names() {
  std::string names;
  for (const TrapTraits& kind : all_trap_traits())
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", kind.name);
  return names;
}

}  // namespace

std::variant<TrapChoice, TrapError> choose_trap(std::string_view setting,
                                                const Permissions& permissions,
                                                std::string_view remedy) {
  const std::optional<UffdAccess> access = permissions.userfaultfd();
  const std::string reason = reason_of(access, permissions);
  if (setting.empty() || setting == "auto") {
    const TrapKind kind = access ? TrapKind::userfaultfd : TrapKind::mprotect;
    return TrapChoice{{kind, access}, reason, std::string(remedy)};
  }
  const TrapTraits* const kind = find_kind(setting);
  if (kind == nullptr)
    return TrapError{
        fmt::format("WHERRY_TRAP: '{}' is none of {} and 'auto'", setting, quoted_names()), false};
  if (kind->uses_userfaultfd && !access)
    return TrapError{fmt::format("WHERRY_TRAP={}: {}; to enable: {}", setting, reason, remedy),
                     true};
  if (kind->kind == TrapKind::userfaultfd)
    return TrapChoice{{kind->kind, access}, reason, std::string(remedy)};
  // Whether the choice of `auto` could do more than this kind.
  const bool auto_is_better =
      kind->uses_userfaultfd ? impl::serves_system_calls(access) : access.has_value();
  return TrapChoice{{kind->kind, kind->uses_userfaultfd ? access : std::nullopt},
                    fmt::format("WHERRY_TRAP={}", setting),
                    auto_is_better ? "unset WHERRY_TRAP" : std::string(remedy)};
}

}  // namespace wherry::impl
