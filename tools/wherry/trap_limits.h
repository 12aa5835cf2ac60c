// The limits of each trap, as `wherry info` prints them.
#pragma once

#include <string>
#include <vector>

#include "trap/trap_choice.h"

namespace wherry::tool {

// One line per limit, to follow "cannot". None for a userfaultfd that also serves system calls.
std::vector<std::string> limits_of(const impl::TrapChoice& choice);

}  // namespace wherry::tool
