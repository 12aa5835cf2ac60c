// How busy the machine is at this moment.
#pragma once

namespace wherry::impl {

// Threads of all programs that run or wait for a CPU, the calling one among them; 0 when the kernel
// does not tell.
unsigned runnable_threads();

}  // namespace wherry::impl
