// Functions that take bytes from memory for a file. Linux finds the memory where it serves faults
// inside system calls; elsewhere the memory is prepared.
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

#include "io/preparation.h"
#include "io/real.h"
#include "io/stands_for.h"

namespace wherry::io {
namespace {

template <Name name>
ssize_t write_at(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  const auto real = Real<name, ssize_t(int, const void*, std::size_t, off_t)>::get();
  return call_prepared([&] { return prepare(buffer, bytes, Access::read); },
                       [&] { return real(fd, buffer, bytes, offset); });
}
// `further`: an offset and, in the newer functions, flags.
template <Name name, typename... Further>
ssize_t write_pieces(int fd, const iovec* pieces, int count, Further... further) {
  const auto real = Real<name, ssize_t(int, const iovec*, int, Further...)>::get();
  const auto number = static_cast<std::size_t>(count);
  const auto call = [&] { return real(fd, pieces, count, further...); };
  if (!prepares() || !is_array(pieces, number)) return call();
  return call_prepared([&] { return prepare_pieces(pieces, number, Access::read); }, call);
}

}  // namespace

ssize_t io_write(int, const void*, std::size_t) WHERRY_IO_STANDS_FOR("write");
ssize_t io_pwrite(int, const void*, std::size_t, off_t) WHERRY_IO_STANDS_FOR("pwrite");
ssize_t io_pwrite64(int, const void*, std::size_t, off_t) WHERRY_IO_STANDS_FOR("pwrite64");
ssize_t io_writev(int, const iovec*, int) WHERRY_IO_STANDS_FOR("writev");
ssize_t io_pwritev(int, const iovec*, int, off_t) WHERRY_IO_STANDS_FOR("pwritev");
ssize_t io_pwritev64(int, const iovec*, int, off_t) WHERRY_IO_STANDS_FOR("pwritev64");
ssize_t io_pwritev2(int, const iovec*, int, off_t, int) WHERRY_IO_STANDS_FOR("pwritev2");
ssize_t io_pwritev64v2(int, const iovec*, int, off_t, int) WHERRY_IO_STANDS_FOR("pwritev64v2");

ssize_t io_write(int fd, const void* buffer, std::size_t bytes) {
  const auto real = Real<"write", ssize_t(int, const void*, std::size_t)>::get();
  return call_prepared([&] { return prepare(buffer, bytes, Access::read); },
                       [&] { return real(fd, buffer, bytes); });
}
ssize_t io_pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  return write_at<"pwrite">(fd, buffer, bytes, offset);
}
ssize_t io_pwrite64(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  return write_at<"pwrite64">(fd, buffer, bytes, offset);
}
ssize_t io_writev(int fd, const iovec* pieces, int count) {
  return write_pieces<"writev">(fd, pieces, count);
}
ssize_t io_pwritev(int fd, const iovec* pieces, int count, off_t offset) {
  return write_pieces<"pwritev">(fd, pieces, count, offset);
}
ssize_t io_pwritev64(int fd, const iovec* pieces, int count, off_t offset) {
  return write_pieces<"pwritev64">(fd, pieces, count, offset);
}
ssize_t io_pwritev2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return write_pieces<"pwritev2">(fd, pieces, count, offset, flags);
}
ssize_t io_pwritev64v2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return write_pieces<"pwritev64v2">(fd, pieces, count, offset, flags);
}

}  // namespace wherry::io
