// Whether the dynamic loader preloads libraries into a program (LD_PRELOAD).
#pragma once

#include <string>

namespace wherry::tool {

// Returns the reason why the loader does not preload libraries into the program `name`, which is
// looked up as by execvp(). Returns an empty string if the loader does, or if there is no such
// program or it is a script.
std::string why_not_preloadable(const std::string& name);

}  // namespace wherry::tool
