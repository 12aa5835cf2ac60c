// Calls that fill an array of pieces of which at least one is managed memory. Two kinds of data go
// through memory of this library (own_pieces.h):
// - Direct reads. With O_DIRECT Linux has the device write into the pages of the call's memory. If
//   such a page moves meanwhile, what arrives later goes into a page that nobody uses any more, and
//   is lost.
// - Data that can be taken only once: a datagram, a terminal's line, an eventfd's count. Linux
//   takes the data from its queue before it finds that the page is absent. So where Linux does not
//   serve faults inside system calls, a read that fails loses the data. Preparing the pages is not
//   enough, because the thread may wait for hours after that.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

namespace wherry::io {

// An offset that means the file's own position.
inline constexpr off64_t at_file_position = -1;
// The offset after `done` more bytes.
inline off64_t behind(off64_t offset, std::size_t done) {
  return offset == at_file_position ? offset : offset + static_cast<off64_t>(done);
}

// A reference to a call of any type: ssize_t call(iovec* pieces, std::size_t count, off64_t
// offset). It must not outlive the object that it was made of.
class FillCall {
 public:
  template <typename Call>
  explicit FillCall(const Call& call)
      : call_(&call),
        make_([](const void* erased, iovec* pieces, std::size_t count, off64_t offset) {
          return (*static_cast<const Call*>(erased))(pieces, count, offset);
        }) {}

  ssize_t operator()(iovec* pieces, std::size_t count, off64_t offset) const {
    return make_(call_, pieces, count, offset);
  }

 private:
  const void* call_;
  ssize_t (*make_)(const void*, iovec*, std::size_t, off64_t);
};

// Makes the call at an offset, with the pieces or with private memory in their place. With private
// memory the call may be made several times, for a part of the pieces each, and at other offsets
// than the file's position. Returns what one call would return, or -1 with ENOMEM without private
// memory. Requires: is_array(pieces, count).
ssize_t fill(int fd, iovec* pieces, std::size_t count, off64_t offset, const FillCall& call);

// Linux transfers at most this many bytes in one call.
inline constexpr std::size_t call_bytes_max = 0x7ffff000;
// The length of one part of a direct read: a read of a GiB must not need a GiB of private memory.
inline constexpr std::size_t part_bytes = std::size_t{1} << 20;

}  // namespace wherry::io
