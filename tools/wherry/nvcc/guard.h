// The condition around a kernel's body that keeps threads beyond the data out: if (i < n) {...}, or
// if (i >= n) return;. The loop over a row of threads asks the condition first, and runs the
// threads for which it holds without it. Otherwise compilers do not see that neighbouring threads
// use neighbouring elements.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "nvcc/kernel_body.h"

namespace wherry::tool {

struct Guard {
  // The condition's tokens, inside its parentheses.
  Part condition;
  bool returns = false;  // threads for which the condition holds end
  // Computes the condition: the declarations before it, in one line.
  std::string declarations;
};

// Nothing: the kernel has none, or one that reads memory.
std::optional<Guard> find_guard(const Tokens& tokens, const DeviceCode& code,
                                const DeviceFunction& kernel);

}  // namespace wherry::tool
