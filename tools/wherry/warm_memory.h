// Uses memory before measurements. In a virtual machine the first use of memory is up to ten times
// slower than later ones, because the host machine provides it only then.
#pragma once

#include <cstdint>

#include "progress.h"

namespace wherry::tool {

// Writes so many bytes of huge pages in a child process. Ignores failures: they show again where
// the memory is needed. Requires: the library has not been started. Throws std::system_error.
void warm_up_memory(std::uint64_t bytes, Progress& progress);

}  // namespace wherry::tool
