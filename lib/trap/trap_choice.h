// Which of the two ways to trap runs: from the setting and what is permitted here to a choice and
// its reason, or one line that says what is wrong. No kernel calls.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "os/process/permissions.h"

namespace wherry::impl {

struct TrapChoice {
  UffdAccess access = UffdAccess::full;  // none: mprotect and SIGSEGV trap
  std::string reason;                    // one line
  std::string remedy;                    // what enables a better one; empty when this is the best
};

// mprotect() changes the access of single pages, so pools whose faults it traps have no huge pages.
constexpr bool permits_huge_pages(UffdAccess access) {
  return access != UffdAccess::none;
}

// "userfaultfd", "userfaultfd in user mode only", "mprotect".
std::string to_string(const TrapChoice& choice);

struct TrapError {
  std::string message;         // one line
  bool not_permitted = false;  // the setting is a good one, but cannot be had here
};

// `setting` is the value of WHERRY_TRAP: "userfaultfd" (the better kind that is permitted),
// "mprotect", or "auto", the default: userfaultfd where it is permitted, else mprotect. `remedy` is
// what would get its better kind permitted.
std::variant<TrapChoice, TrapError> choose_trap(std::string_view setting,
                                                const Permissions& permissions,
                                                std::string_view remedy);

}  // namespace wherry::impl
