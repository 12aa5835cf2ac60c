// Calls that Linux ends early at a page that is elsewhere. A regular file's bytes are all there, so
// programs rely on whole counts: the rest is called for again.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

#include "io/fill.h"
#include "io/preparation.h"

namespace wherry::io {

// Makes the call with prepared pieces until all bytes are transferred, the file has no more, Linux
// transfers none, or it fails. One call only for what is neither a regular file nor a block device.
// `access`: what Linux does with the pieces. Returns what one call would return. Requires:
// is_array(pieces, count).
ssize_t call_for_whole(int fd, const iovec* pieces, std::size_t count, off64_t offset,
                       Access access, const FillCall& call);

}  // namespace wherry::io
