// Whether the dynamic loader preloads libraries into a program (LD_PRELOAD).
#pragma once

#include <string>

namespace wherry::tool {

// `name`: as execvp() takes it. Empty: it does, or the program does not exist, or is a script.
// Otherwise the reason why it does not.
std::string why_not_preloadable(const std::string& name);

}  // namespace wherry::tool
