// Descriptors of which the library keeps many are to leave the application those that it can have.
#pragma once

#include "os/files/fd.h"

namespace wherry::impl {

// The same file, behind a descriptor whose number the application would not get: as soon as half of
// those that the process may have (RLIMIT_NOFILE) are taken, it may have 2^16 more, if its hard
// limit permits, and what is given to this function takes numbers beyond the former limit. Where
// that is not to be had, as it is. Any thread.
Fd move_apart(Fd fd);

}  // namespace wherry::impl
