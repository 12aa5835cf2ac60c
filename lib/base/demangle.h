// Converts mangled C++ symbol names to source form, for log lines.
#pragma once

#include <string>

namespace wherry::impl {

// Returns `name` unchanged if it is not a mangled name.
std::string demangle(const std::string& name);

}  // namespace wherry::impl
