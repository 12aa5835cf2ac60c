#include "io/file_reads.h"

namespace wherry::io {

ssize_t io_preadv2(int, const iovec*, int, off64_t, int) WHERRY_IO_STANDS_FOR("preadv2");

ssize_t io_preadv2(int fd, const iovec* pieces, int count, off64_t offset, int flags) {
  return read_pieces_at<"preadv2">(fd, pieces, count, offset, flags);
}

}  // namespace wherry::io
