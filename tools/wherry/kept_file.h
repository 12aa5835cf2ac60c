// Writes what the tool has measured of this machine into files that later runs read.
#pragma once

#include <string>

namespace wherry::tool {

// Returns why save_kept() cannot write the file, if that can be known in advance; otherwise empty.
// Creates the user's cache folder if the file is in it, but no folder that the user names.
std::string why_not_saved(const std::string& path);
// Replaces the file as a whole, or not at all. Returns an empty string, or one line with the error.
std::string save_kept(const std::string& text, const std::string& path);

}  // namespace wherry::tool
