// The stretch of a file that a read or write at the file's position concerns. The wrapper divides
// it into several calls, between which other threads and processes may use the same position. So an
// object of this class first moves the position to the end of the stretch, and finally back over
// what was not transferred.
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
  // `done` counts the bytes that have been transferred when this is destroyed, also if the thread
  // is cancelled.
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

  // The stretch's start; at_file_position if the position did not move or cannot be moved so far,
  // as behind the end of a block device.
  off64_t start() const { return std::max(end_ - static_cast<off64_t>(bytes_), at_file_position); }

 private:
  const int fd_;
  const std::size_t bytes_;
  const std::size_t& done_;
  off64_t end_;
};

}  // namespace wherry::io
