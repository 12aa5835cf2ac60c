#include "io/drain.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "io/own_pieces.h"
#include "io/preparation.h"
#include "io/whole.h"

namespace wherry::io {
namespace {

// More than a pipe holds, and little enough for a CPU's cache.
constexpr std::size_t drained_part_bytes = std::size_t{128} << 10;
// No datagram is longer.
constexpr std::size_t message_bytes_max = std::size_t{16} << 20;

bool is_of_messages(int fd, mode_t mode) {
  int type = SOCK_STREAM;
  socklen_t size = sizeof type;
  return S_ISSOCK(mode) && ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
         type != SOCK_STREAM;
}

ssize_t drain_parts(const iovec* pieces, std::size_t count, off64_t offset, const FillCall& call,
                    std::size_t all, std::size_t part) {
  OwnPieces own(count, part);
  if (!own.exist()) return call_with_pieces(pieces, count, offset, Access::read, call);
  const int errno_before = errno;
  std::size_t done = 0;
  do {
    const std::size_t asked = own.take(pieces, count, done, std::min(part, all - done));
    // A message must be sent by one call, so the call gets the program's own pieces.
    if (part == all && asked < all) return call(const_cast<iovec*>(pieces), count, offset);
    own.collect();
    const ssize_t result = call(own.pieces(), own.count(), behind(offset, done));
    if (result < 0 && done == 0) return result;
    if (result <= 0) break;
    done += static_cast<std::size_t>(result);
    if (static_cast<std::size_t>(result) < asked) break;
  } while (done < all);
  errno = errno_before;
  return static_cast<ssize_t>(done);
}

}  // namespace

ssize_t drain(int fd, const iovec* pieces, std::size_t count, off64_t offset,
              const FillCall& call) {
  const int errno_before = errno;
  struct stat about;
  const bool is_known = ::fstat(fd, &about) == 0;
  const bool is_file = is_known && (S_ISREG(about.st_mode) || S_ISBLK(about.st_mode));
  const bool is_message = is_known && is_of_messages(fd, about.st_mode);
  errno = errno_before;
  const auto all = sum_of(pieces, count);
  if (is_file) return call_for_whole(fd, about, pieces, count, offset, Access::read, call);
  if (!is_known || !all || *all == 0)
    return call_with_pieces(pieces, count, offset, Access::read, call);
  if (is_message && *all > message_bytes_max)
    return call(const_cast<iovec*>(pieces), count, offset);
  const std::size_t most = std::min(*all, call_bytes_max);
  return drain_parts(pieces, count, offset, call, most,
                     is_message ? most : std::min(most, drained_part_bytes));
}

}  // namespace wherry::io
