#include "io/whole.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "io/claimed_stretch.h"
#include "io/own_pieces.h"

namespace wherry::io {
namespace {

// Whether a call for the rest of a transfer, which begins at `at`, neither waits nor raises a
// signal, so that it only finds out whether Linux has stopped at an absent page. Linux may stop
// anywhere in a page, because the page may leave while Linux copies into it. Only a file with a
// size is read on: files of /proc have none, and reads of some of them wait for news.
bool may_go_on(int fd, off64_t at, Access access) {
  struct stat about;
  if (at < 0 || ::fstat(fd, &about) != 0) return false;
  if (S_ISBLK(about.st_mode)) return true;
  if (!S_ISREG(about.st_mode)) return false;
  if (access == Access::write) return at < about.st_size;
  // Linux sends SIGXFSZ at the greatest permitted size. Appended bytes begin at the file's end.
  rlimit64 limit;
  return ::getrlimit64(RLIMIT_FSIZE, &limit) == 0 &&
         static_cast<rlim64_t>(std::max<off64_t>(at, about.st_size)) < limit.rlim_cur;
}

// Whether a call at the file's position may claim its stretch: not if it appends, and not in a file
// without a size, as in /proc, whose position may have another meaning.
bool may_claim(int fd, const struct stat& about, Access access) {
  if (!S_ISBLK(about.st_mode) && about.st_size == 0) return false;
  if (access == Access::write) return true;
  const int flags = ::fcntl(fd, F_GETFL);
  return flags != -1 && (flags & O_APPEND) == 0;
}

}  // namespace

ssize_t call_with_pieces(const iovec* pieces, std::size_t count, off64_t offset, Access access,
                         const FillCall& call) {
  return call_prepared([&] { return prepare_pieces(pieces, count, access); },
                       [&] { return call(const_cast<iovec*>(pieces), count, offset); });
}

ssize_t call_for_whole(int fd, const struct stat& about, const iovec* pieces, std::size_t count,
                       off64_t offset, Access access, const FillCall& call) {
  const auto sum = sum_of(pieces, count);
  if (!sum) return call_with_pieces(pieces, count, offset, access, call);
  const std::size_t all = std::min(*sum, call_bytes_max);
  const int errno_before = errno;
  std::size_t done = 0;
  std::optional<ClaimedStretch> stretch;
  if (offset == at_file_position && may_claim(fd, about, access)) {
    stretch.emplace(fd, all, done);
    offset = stretch->start();
  }
  errno = errno_before;
  const ssize_t first = call_with_pieces(pieces, count, offset, access, call);
  if (first <= 0) return first;
  done = static_cast<std::size_t>(first);
  if (done >= all) return first;
  const OwnPieces arrays(count, 0, count);
  if (!arrays.exist()) return first;
  while (done < all) {
    const iovec* const rest = arrays.further();
    const std::size_t number = cut(pieces, count, done, all - done, arrays.further());
    const off64_t at = behind(offset, done);
    const off64_t place = at == at_file_position ? ::lseek64(fd, 0, SEEK_CUR) : at;
    if (!is_managed(rest->iov_base, 1) || !may_go_on(fd, place, access)) break;
    const ssize_t result = call_with_pieces(rest, number, at, access, call);
    if (result <= 0) break;
    done += static_cast<std::size_t>(result);
  }
  errno = errno_before;
  return static_cast<ssize_t>(done);
}

}  // namespace wherry::io
