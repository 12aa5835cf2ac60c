// What each way to trap cannot do: the only place above the fault service that asks which one runs.
#pragma once

#include <string>
#include <vector>

#include "trap/trap_kind.h"

namespace wherry::impl {

// One line each, fit to follow "cannot"; none for userfaultfd that serves system calls.
std::vector<std::string> limits_of(const TrapChoice& choice);

}  // namespace wherry::impl
