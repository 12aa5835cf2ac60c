// Names of C++ functions and types as a person writes them, for log lines.
#pragma once

#include <string>

namespace wherry::impl {

// Returns the name itself if it is not mangled.
std::string demangle(const std::string& name);

}  // namespace wherry::impl
