// A stretch of a file that one call reads or writes at the file's position, although other threads
// and processes use the same position. Several calls would get several stretches. So this moves the
// position behind the stretch first, and returns the rest at the end.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "io/fill.h"

namespace wherry::io {

class ClaimedStretch {
 public:
  // `done`: how many of the bytes have been transferred when this is destroyed, also by the
  // cancellation of the thread.
  ClaimedStretch(int fd, std::size_t bytes, const std::size_t& done)
      : fd_(fd), bytes_(bytes), done_(done) {
    const int errno_before = errno;
    end_ = ::lseek64(fd, static_cast<off64_t>(bytes), SEEK_CUR);
    errno = errno_before;
  }
  ~ClaimedStretch() {
    if (end_ < 0 || done_ >= bytes_) return;
    const int errno_before = errno;
    ::lseek64(fd_, -static_cast<off64_t>(bytes_ - done_), SEEK_CUR);
    errno = errno_before;
  }
  ClaimedStretch(const ClaimedStretch&) = delete;
  ClaimedStretch& operator=(const ClaimedStretch&) = delete;

  // Where it starts. At the file's position if the position cannot be moved so far, which is so
  // behind the end of a block device, or if it does not move.
  off64_t start() const { return std::max(end_ - static_cast<off64_t>(bytes_), at_file_position); }

 private:
  const int fd_;
  const std::size_t bytes_;
  const std::size_t& done_;
  off64_t end_;
};

}  // namespace wherry::io
