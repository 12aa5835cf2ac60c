#include "io/file_reads.h"

namespace wherry::io {
namespace {

using Readv = ssize_t(int, const iovec*, int);

[[gnu::noinline]] ssize_t read_managed_pieces(Readv* real, int fd, const iovec* pieces, int count) {
  const auto call = [&](const iovec* into, std::size_t number, off64_t offset) {
    if (offset == at_file_position) return real(fd, into, static_cast<int>(number));
    return Real<"preadv64", ReadPieces>::get()(fd, into, static_cast<int>(number), offset);
  };
  return fill(fd, const_cast<iovec*>(pieces), static_cast<std::size_t>(count), at_file_position,
              FillCall(call));
}

}  // namespace

ssize_t io_readv(int, const iovec*, int) WHERRY_IO_STANDS_FOR("readv");

ssize_t io_readv(int fd, const iovec* pieces, int count) {
  const auto real = Real<"readv", Readv>::get();
  if (concerns_no_managed_memory(pieces, count)) return real(fd, pieces, count);
  return read_managed_pieces(real, fd, pieces, count);
}

}  // namespace wherry::io
