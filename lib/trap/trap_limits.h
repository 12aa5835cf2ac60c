// The limits of each trap, as `wherry info` prints them.
#pragma once

#include <string>
#include <vector>

#include "trap/trap_choice.h"

namespace wherry::impl {

// What the trap cannot do: one line each, to follow "cannot". Empty for userfaultfd that serves
// system calls.
std::vector<std::string> limits_of(const TrapChoice& choice);

}  // namespace wherry::impl
