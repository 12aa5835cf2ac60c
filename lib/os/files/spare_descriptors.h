// Moves descriptors of which the library keeps many out of the range that the application can use.
#pragma once

#include "os/files/fd.h"

namespace wherry::impl {

// Returns the same file behind a descriptor number that the application would not get. Once half of
// the permitted numbers (RLIMIT_NOFILE) are in use, this raises the limit by 2^16, if the hard
// limit permits, and gives the descriptor a number above the former limit. Otherwise it returns
// `fd` unchanged. Any thread.
Fd move_apart(Fd fd);

}  // namespace wherry::impl
