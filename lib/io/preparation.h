// Makes the memory that is passed to a system call accessible before the call, and repeats the call
// if a device took a page away in between. Costs one load of a pointer until libwherry attaches
// itself. No locks and no heap memory: callable from signal handlers. errno changes only as the
// real call changes it.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>

#include "runtime/system_calls.h"

namespace wherry::io {

using Access = impl::SystemCallAccess;

// Whether libwherry has attached itself.
bool is_attached();
// Whether the caller may read an array, or a header, that the program passed to a call. If not, the
// call goes to the kernel unchanged, which rejects the pointer.
bool is_readable(const void* start, std::size_t bytes);
bool is_array(const iovec* pieces, std::size_t count);

// How many bytes at `start` are managed memory, up to the first that is not.
std::size_t managed_bytes(const void* start, std::size_t bytes);
// Access the managed memory in a range; in an array and in all pieces that it lists; in a message's
// header and in all that it refers to. `access`: whether the kernel only reads that memory or may
// also write to it. Each returns whether there is any managed memory.
bool prepare(const void* start, std::size_t bytes, Access access);
bool prepare_pieces(const iovec* pieces, std::size_t count, Access access);
bool prepare_message(const msghdr& header, Access access);

// A device may take a page away between its preparation and the call. The minimum residency keeps
// it on the host for 20 us, which is enough unless the thread loses its CPU within that time.
inline constexpr int attempts_max = 1000;

// Returns what call() returns. While call() fails with EFAULT and prepare_all() found managed
// memory, both are repeated, at most attempts_max times.
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
