// What each way to trap cannot do: for those above who have to mind it.
#pragma once

#include <string>
#include <vector>

#include "trap/trap_choice.h"

namespace wherry::impl {

// Protection is a matter of single pages: pools whose faults it traps have no huge ones.
bool permits_huge_pages(UffdAccess access);

// One line each, fit to follow "cannot"; none for userfaultfd that serves system calls.
std::vector<std::string> limits_of(const TrapChoice& choice);

}  // namespace wherry::impl
