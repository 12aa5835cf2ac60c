// Tests whether a file can be written, before the work whose results it is to contain.
#pragma once

#include <string>

namespace wherry::tool {

// Returns what impl::create_in_place_of() (os/files/new_file.h) would return, 0 or an errno:
// creates the new file and removes it again. Does not tell whether the disk has enough space.
[[nodiscard]] int try_create_in_place_of(const std::string& path);

}  // namespace wherry::tool
