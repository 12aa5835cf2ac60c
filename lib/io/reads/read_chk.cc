#include "io/file_reads.h"

namespace wherry::io {

ssize_t io_read_chk(int, void*, std::size_t, std::size_t) WHERRY_IO_STANDS_FOR("__read_chk");

ssize_t io_read_chk(int fd, void* buffer, std::size_t bytes, std::size_t size) {
  if (bytes <= size) return read_bytes(fd, buffer, bytes);
  // The buffer is too small: the real function ends the program.
  return Real<"__read_chk", ssize_t(int, void*, std::size_t, std::size_t)>::get()(fd, buffer, bytes,
                                                                                  size);
}

}  // namespace wherry::io
