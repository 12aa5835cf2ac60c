// Where execvp() finds a program.
#pragma once

#include <string>

namespace wherry::tool {

// Returns a name with a slash as it is. Empty if no folder of PATH has the program.
std::string find_program(const std::string& name);

}  // namespace wherry::tool
