// Makes the memory that a system call is given accessible beforehand, and repeats the call where a
// device was faster. Costs one look at a pointer until the library attaches itself. No locks, no
// memory from the heap: callable from signal handlers. The caller's errno changes only as the real
// call changes it.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>

#include "runtime/system_calls.h"

namespace wherry::io {

using Access = impl::SystemCallAccess;

// Whether there is somebody who prepares.
bool is_attached();
// Whether the caller may look at an array, or a header, that the program gave to a call: an invalid
// pointer is the kernel's to refuse.
bool is_readable(const void* start, std::size_t bytes);
bool is_array(const iovec* pieces, std::size_t count);

// How many of the bytes are managed memory, up to the first that is not.
std::size_t managed_bytes(const void* start, std::size_t bytes);
// Touches what is managed memory of a range; of an array and of all that it names; of a message's
// header and all that it names, which the kernel only reads, or may also write to. Returns whether
// there is any.
bool prepare(const void* start, std::size_t bytes, Access access);
bool prepare_pieces(const iovec* pieces, std::size_t count, Access access);
bool prepare_message(const msghdr& header, Access access);

// A device may take a page away between its preparation and the call. Tenure keeps it here for 20
// us, which is enough unless the thread loses its CPU just then.
inline constexpr int attempts_max = 1000;

// Returns what call() returns once it does not fail for memory that prepare_all(), which says
// whether there is any, can do something about.
template <typename PrepareAll, typename Call>
ssize_t call_prepared(const PrepareAll& prepare_all, const Call& call) {
  const int errno_before = errno;
  for (int attempt = 1;; ++attempt) {
    const bool managed = prepare_all();
    errno = errno_before;
    const ssize_t result = call();
    if (result != -1 || errno != EFAULT || !managed || attempt == attempts_max) return result;
  }
}

}  // namespace wherry::io
