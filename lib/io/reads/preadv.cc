#include "io/file_reads.h"

namespace wherry::io {

ssize_t io_preadv(int, const iovec*, int, off64_t) WHERRY_IO_STANDS_FOR("preadv");

ssize_t io_preadv(int fd, const iovec* pieces, int count, off64_t offset) {
  return read_pieces_at<"preadv">(fd, pieces, count, offset);
}

}  // namespace wherry::io
