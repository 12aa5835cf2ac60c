// Whether the dynamic loader preloads libraries into a program (LD_PRELOAD).
#pragma once

#include <string>

namespace wherry::tool {

// Returns the reason why it does not; empty if it does, or if the program does not exist or is a
// script. `name`: as execvp() takes it.
std::string why_not_preloadable(const std::string& name);

}  // namespace wherry::tool
