#include "io/whole.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/own_pieces.h"

namespace wherry::io {
namespace {

// Whether the file itself lets the call go on behind what it has transferred: then Linux has
// stopped at a page that is elsewhere, and another call neither waits nor raises a signal. Linux
// may stop anywhere in a page, because the page may leave while Linux copies into it. `at`: where
// the rest begins.
bool goes_on(int fd, off64_t at, Access access) {
  struct stat about;
  if (::fstat(fd, &about) != 0) return false;
  if (S_ISBLK(about.st_mode)) return true;
  if (!S_ISREG(about.st_mode)) return false;
  if (at == at_file_position) at = ::lseek64(fd, 0, SEEK_CUR);
  // Files of /proc have no size, and a read of some waits for news.
  if (access == Access::write) return at < about.st_size;
  // Above the limit Linux sends SIGXFSZ.
  rlimit64 limit;
  if (::getrlimit64(RLIMIT_FSIZE, &limit) != 0) return false;
  const int flags = ::fcntl(fd, F_GETFL);
  const bool appends = flags == -1 || (flags & O_APPEND) != 0;
  const off64_t written_at = appends ? std::max<off64_t>(at, about.st_size) : at;
  return at >= 0 && static_cast<rlim64_t>(written_at) < limit.rlim_cur;
}

}  // namespace

ssize_t call_for_whole(int fd, const iovec* pieces, std::size_t count, off64_t offset,
                       Access access, const FillCall& call) {
  const auto prepared = [&](iovec* rest, std::size_t number, off64_t at) {
    return call_prepared([&] { return prepare_pieces(rest, number, access); },
                         [&] { return call(rest, number, at); });
  };
  const ssize_t first = prepared(const_cast<iovec*>(pieces), count, offset);
  const auto sum = sum_of(pieces, count);
  if (first <= 0 || !sum) return first;
  const std::size_t all = std::min(*sum, call_bytes_max);
  if (static_cast<std::size_t>(first) >= all) return first;
  const OwnPieces arrays(count, 0, count);
  if (!arrays.exist()) return first;
  const int errno_before = errno;
  auto done = static_cast<std::size_t>(first);
  while (done < all) {
    const std::size_t number = cut(pieces, count, done, all - done, arrays.further());
    const off64_t at =
        offset == at_file_position ? at_file_position : offset + static_cast<off64_t>(done);
    if (!is_managed(arrays.further()->iov_base, 1) || !goes_on(fd, at, access)) break;
    const ssize_t result = prepared(arrays.further(), number, at);
    if (result <= 0) break;
    done += static_cast<std::size_t>(result);
  }
  errno = errno_before;
  return static_cast<ssize_t>(done);
}

}  // namespace wherry::io
