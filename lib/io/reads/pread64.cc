#include "io/file_reads.h"

namespace wherry::io {

ssize_t io_pread64(int, void*, std::size_t, off64_t) WHERRY_IO_STANDS_FOR("pread64");

ssize_t io_pread64(int fd, void* buffer, std::size_t bytes, off64_t offset) {
  return read_bytes_at<"pread64">(fd, buffer, bytes, offset);
}

}  // namespace wherry::io
