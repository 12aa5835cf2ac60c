// CPU time of the library's threads that resolve faults.
#pragma once

#include <cstdint>

namespace wherry::test {

// What these threads of this process have used so far, in nanoseconds.
std::uint64_t handler_threads_ns();

}  // namespace wherry::test
