// The current load of the machine.
#pragma once

namespace wherry::impl {

// Returns how many threads of all programs run or wait for a CPU, including the calling one; 0 if
// Linux does not report it.
unsigned runnable_threads();

}  // namespace wherry::impl
