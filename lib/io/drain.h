// Calls that take bytes from an array of pieces, of which at least one is managed memory, where
// Linux does not serve faults inside system calls. The call transfers as much as from ordinary
// memory: all, unless a signal interrupts it or the file does not block. If it may block, Linux
// reads private memory of this library: managed pages do not stay for so long, and a count that is
// short because of a page looks like one that is short because of a signal.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

#include "io/fill.h"

namespace wherry::io {

// Makes the call once or several times, and returns what one call would return. Requires:
// prepares(), and is_array(pieces, count).
ssize_t drain(int fd, const iovec* pieces, std::size_t count, off64_t offset, const FillCall& call);

}  // namespace wherry::io
