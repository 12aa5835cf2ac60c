#include "io/file_reads.h"

namespace wherry::io {

ssize_t io_pread_chk(int, void*, std::size_t, off64_t, std::size_t)
    WHERRY_IO_STANDS_FOR("__pread_chk");

ssize_t io_pread_chk(int fd, void* buffer, std::size_t bytes, off64_t offset, std::size_t size) {
  if (bytes <= size) return read_bytes_at<"pread">(fd, buffer, bytes, offset);
  // The buffer is too small: the real function ends the program.
  return Real<"__pread_chk", ssize_t(int, void*, std::size_t, off64_t, std::size_t)>::get()(
      fd, buffer, bytes, offset, size);
}

}  // namespace wherry::io
