// Where execvp() finds a program.
#pragma once

#include <string>

namespace wherry::tool {

// `name`: with a slash it is a path, which is returned as it is. Empty: the program is in no folder
// of PATH.
std::string find_program(const std::string& name);

}  // namespace wherry::tool
