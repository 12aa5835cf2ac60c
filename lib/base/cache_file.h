// Where the library and the tool keep what they have measured of this machine.
#pragma once

#include <string>

namespace wherry::impl {

// The path of the file `name` in the user's cache folder: $XDG_CACHE_HOME/wherry, or
// ~/.cache/wherry. Empty: there is no such folder, or a privileged program must ignore it.
std::string cache_file(const char* name);

}  // namespace wherry::impl
