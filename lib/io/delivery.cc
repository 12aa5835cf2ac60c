#include "io/delivery.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/preparation.h"

namespace wherry::io {
namespace {

bool delivers_once(int fd) {
  struct stat about;
  if (::fstat(fd, &about) != 0) return false;
  if (S_ISSOCK(about.st_mode)) {
    int type = SOCK_STREAM;
    socklen_t size = sizeof type;
    return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type != SOCK_STREAM;
  }
  return !S_ISREG(about.st_mode) && !S_ISFIFO(about.st_mode) && !S_ISBLK(about.st_mode) &&
         !S_ISDIR(about.st_mode);
}

}  // namespace

Substitute::Substitute(int fd, const iovec* pieces, std::size_t count) : count_(count) {
  std::size_t managed_total = 0;
  for (std::size_t i = 0; i < count; ++i)
    managed_total += managed_bytes(pieces[i].iov_base, pieces[i].iov_len);
  if (managed_total == 0) return;
  const int errno_before = errno;
  if (delivers_once(fd)) {
    // Neither from the heap nor from a stack of unknown size, because this may be a signal handler.
    const std::size_t bytes = 2 * count * sizeof *pieces + managed_total;
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
      pieces_ = static_cast<iovec*>(memory);
      bytes_ = bytes;
      iovec* const theirs = pieces_ + count;
      auto* own = reinterpret_cast<char*>(theirs + count);
      for (std::size_t i = 0; i < count; ++i) {
        theirs[i] = pieces_[i] = pieces[i];
        // Asked again, because part of the memory may have been freed or allocated since the first
        // loop.
        const std::size_t managed =
            std::min(managed_total, managed_bytes(theirs[i].iov_base, theirs[i].iov_len));
        if (managed == 0) continue;
        pieces_[i] = {own, managed};
        own += managed;
        managed_total -= managed;
      }
    }
  }
  errno = errno_before;
}

Substitute::~Substitute() {
  if (pieces_ == nullptr) return;
  const int errno_before = errno;
  ::munmap(pieces_, bytes_);
  errno = errno_before;
}

void Substitute::deliver(ssize_t result) const {
  const iovec* const theirs = pieces_ + count_;
  // With MSG_TRUNC the result is the length of the datagram, which may exceed the buffers.
  std::size_t left = result > 0 ? static_cast<std::size_t>(result) : 0;
  for (std::size_t i = 0; i < count_ && left != 0; ++i) {
    const std::size_t length = std::min(left, pieces_[i].iov_len);
    if (pieces_[i].iov_base != theirs[i].iov_base)
      std::memcpy(theirs[i].iov_base, pieces_[i].iov_base, length);
    left -= length;
  }
}

}  // namespace wherry::io
