// Where the library and the `wherry` tool keep what they measure on a machine.
#pragma once

#include <string>

namespace wherry::impl {

// Returns the path of `name` in $XDG_CACHE_HOME/wherry or $HOME/.cache/wherry. It is empty if both
// variables are unset, or if the program is privileged and ignores them.
std::string cache_file(const char* name);

}  // namespace wherry::impl
