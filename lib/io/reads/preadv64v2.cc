#include "io/file_reads.h"

namespace wherry::io {

ssize_t io_preadv64v2(int, const iovec*, int, off64_t, int) WHERRY_IO_STANDS_FOR("preadv64v2");

ssize_t io_preadv64v2(int fd, const iovec* pieces, int count, off64_t offset, int flags) {
  return read_pieces_at<"preadv64v2">(fd, pieces, count, offset, flags);
}

}  // namespace wherry::io
