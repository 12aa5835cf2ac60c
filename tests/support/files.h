// Reading of files.
#pragma once

#include <string>

namespace wherry::test {

// The whole content of the file; empty if it cannot be read.
std::string contents_of(const std::string& path);

}  // namespace wherry::test
