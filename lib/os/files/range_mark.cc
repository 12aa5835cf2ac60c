#include "os/files/range_mark.h"

#include <fcntl.h>

#include <cerrno>

namespace wherry::impl {
namespace {

struct flock lock_of(short type, std::uint64_t offset, std::uint64_t bytes) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(offset);
  lock.l_len = static_cast<off_t>(bytes);
  return lock;
}

}  // namespace

int mark_range(int fd, std::uint64_t offset, std::uint64_t bytes) {
  struct flock lock = lock_of(F_RDLCK, offset, bytes);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

bool is_range_marked(int fd, std::uint64_t offset, std::uint64_t bytes) {
  struct flock lock = lock_of(F_WRLCK, offset, bytes);
  // If the query fails, the range may be marked.
  return ::fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace wherry::impl
