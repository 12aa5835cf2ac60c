#include "io/file_reads.h"

namespace wherry::io {

ssize_t io_pread(int, void*, std::size_t, off64_t) WHERRY_IO_STANDS_FOR("pread");

ssize_t io_pread(int fd, void* buffer, std::size_t bytes, off64_t offset) {
  return read_bytes_at<"pread">(fd, buffer, bytes, offset);
}

}  // namespace wherry::io
