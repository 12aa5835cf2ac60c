#include "io/file_reads.h"

namespace wherry::io {

ssize_t io_preadv64(int, const iovec*, int, off64_t) WHERRY_IO_STANDS_FOR("preadv64");

ssize_t io_preadv64(int fd, const iovec* pieces, int count, off64_t offset) {
  return read_pieces_at<"preadv64">(fd, pieces, count, offset);
}

}  // namespace wherry::io
