// Common parts of the wrappers of functions that read files. Each wrapper is a file in io/reads,
// and so a member of libwherry.a: a program that defines one of these functions itself gets the
// other wrappers.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <climits>
#include <cstddef>

#include "io/fill.h"
#include "io/preparation.h"
#include "io/real.h"
#include "io/stands_for.h"

namespace wherry::io {

using ReadPieces = ssize_t(int, const iovec*, int, off64_t);

// A call on ordinary memory ends in a jump to the real function, without a return: CPUs do not
// predict returns after a system call. So code that needs a stack frame is in functions of its own.

template <typename Real>
[[gnu::noinline]] ssize_t read_managed(Real* real, int fd, void* buffer, std::size_t bytes) {
  if (!is_managed(buffer, bytes)) return real(fd, buffer, bytes);
  iovec piece{buffer, bytes};
  const auto call = [&](const iovec* pieces, std::size_t count, off64_t offset) {
    if (offset == at_file_position) return real(fd, pieces->iov_base, pieces->iov_len);
    return io::Real<"preadv64", ReadPieces>::get()(fd, pieces, static_cast<int>(count), offset);
  };
  return fill(fd, &piece, 1, at_file_position, FillCall(call));
}

// read() and functions that differ from it in their checks only.
inline ssize_t read_bytes(int fd, void* buffer, std::size_t bytes) {
  const auto real = Real<"read", ssize_t(int, void*, std::size_t)>::get();
  return may_be_managed(buffer) ? read_managed(real, fd, buffer, bytes) : real(fd, buffer, bytes);
}

template <typename Real>
[[gnu::noinline]] ssize_t read_managed_at(Real* real, int fd, void* buffer, std::size_t bytes,
                                          off64_t offset) {
  // Linux refuses a negative offset, so the real function gets it.
  if (offset < 0 || !is_managed(buffer, bytes)) return real(fd, buffer, bytes, offset);
  iovec piece{buffer, bytes};
  const auto call = [&](const iovec* pieces, std::size_t, off64_t at) {
    return real(fd, pieces->iov_base, pieces->iov_len, at);
  };
  return fill(fd, &piece, 1, offset, FillCall(call));
}

// For pread() and the like; `name` is the real function.
template <Name name>
ssize_t read_bytes_at(int fd, void* buffer, std::size_t bytes, off64_t offset) {
  const auto real = Real<name, ssize_t(int, void*, std::size_t, off64_t)>::get();
  return may_be_managed(buffer) ? read_managed_at(real, fd, buffer, bytes, offset)
                                : real(fd, buffer, bytes, offset);
}

// Whether an array goes to the kernel unchanged. An array that is itself in managed memory is
// prepared, if calls' memory is prepared at all.
inline bool concerns_no_managed_memory(const iovec* pieces, int count) {
  if (attached_hooks.load(std::memory_order_relaxed) == nullptr) return true;
  const auto number = static_cast<std::size_t>(count);
  const std::size_t bytes = number * sizeof *pieces;
  const bool is_known =
      is_on_this_page(pieces, bytes) || (number <= IOV_MAX && is_on_readable_pages(pieces, bytes));
  if (!is_known && !is_array(pieces, number)) return true;
  return !prepares() && !is_any_managed(pieces, number);
}

template <typename Real, typename... Flags>
[[gnu::noinline]] ssize_t read_managed_pieces_at(Real* real, int fd, const iovec* pieces, int count,
                                                 off64_t offset, Flags... flags) {
  const auto call = [&](const iovec* into, std::size_t number, off64_t at) {
    return real(fd, into, static_cast<int>(number), at, flags...);
  };
  return fill(fd, const_cast<iovec*>(pieces), static_cast<std::size_t>(count), offset,
              FillCall(call));
}

// For preadv() and the like; `flags` is the last argument of the newer functions.
template <Name name, typename... Flags>
ssize_t read_pieces_at(int fd, const iovec* pieces, int count, off64_t offset, Flags... flags) {
  const auto real = Real<name, ssize_t(int, const iovec*, int, off64_t, Flags...)>::get();
  // The newer functions read at the file's position if the offset is -1.
  const bool is_refused = offset < 0 && (sizeof...(flags) == 0 || offset != at_file_position);
  if (is_refused || concerns_no_managed_memory(pieces, count))
    return real(fd, pieces, count, offset, flags...);
  return read_managed_pieces_at(real, fd, pieces, count, offset, flags...);
}

}  // namespace wherry::io
