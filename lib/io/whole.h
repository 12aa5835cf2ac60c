// Calls that Linux ends early at a page that is absent. All bytes of a regular file are there, so
// programs rely on whole counts: further calls transfer the rest.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

#include "io/fill.h"
#include "io/preparation.h"

namespace wherry::io {

// Makes the call once, with prepared pieces. `access` says what Linux does with them. Requires:
// is_array(pieces, count).
ssize_t call_with_pieces(const iovec* pieces, std::size_t count, off64_t offset, Access access,
                         const FillCall& call);
// Like call_with_pieces(), for a regular file or block device with the status `about`: repeats the
// call until all bytes are transferred, the file has no more, Linux transfers none, or it fails.
// Returns what one call would return.
ssize_t call_for_whole(int fd, const struct stat& about, const iovec* pieces, std::size_t count,
                       off64_t offset, Access access, const FillCall& call);

}  // namespace wherry::io
