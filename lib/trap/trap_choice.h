// Chooses the trap from the setting and from what is permitted here. Makes no system calls.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "os/process/permissions.h"
#include "trap/trap.h"

namespace wherry::impl {

struct TrapChoice {
  TrapMode mode;
  std::string reason;  // one line
  std::string remedy;  // how to enable a better trap; empty: this is the best
};

struct TrapError {
  std::string message;         // one line
  bool not_permitted = false;  // the setting is valid, but not permitted here
};

// `setting` is the value of WHERRY_TRAP: the name of a kind, or "auto", the default: userfaultfd
// where it is permitted, otherwise mprotect. With either, a kind that uses a userfaultfd gets the
// best permitted one. `remedy`: how to enable the best one. Only the setting chooses sigbus,
// because it shares SIGBUS with the program (docs/decisions/traps.md).
std::variant<TrapChoice, TrapError> choose_trap(std::string_view setting,
                                                const Permissions& permissions,
                                                std::string_view remedy);

}  // namespace wherry::impl
