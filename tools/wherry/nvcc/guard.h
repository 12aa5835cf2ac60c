// The condition around a kernel's body that keeps threads beyond the data out: if (i < n) {...}, or
// if (i >= n) return;. The loop over a row of threads evaluates the condition first, and runs the
// body without it for the threads that pass. With the condition in the body, compilers do not see
// that neighbouring threads use neighbouring elements.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "nvcc/kernel_body.h"

namespace wherry::tool {

struct Guard {
  // The condition's tokens, inside its parentheses.
  Part condition;
  bool returns = false;  // threads for which the condition holds return
  // The declarations that the condition needs, in one line.
  std::string declarations;
};

// Returns nullopt if the kernel has no guard, or one that reads memory.
std::optional<Guard> find_guard(const Tokens& tokens, const DeviceCode& code,
                                const DeviceFunction& kernel);

}  // namespace wherry::tool
