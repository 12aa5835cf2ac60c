#include "io/file_reads.h"

namespace wherry::io {

ssize_t io_read(int, void*, std::size_t) WHERRY_IO_STANDS_FOR("read");

ssize_t io_read(int fd, void* buffer, std::size_t bytes) {
  return read_bytes(fd, buffer, bytes);
}

}  // namespace wherry::io
