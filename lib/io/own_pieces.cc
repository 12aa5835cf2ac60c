#include "io/own_pieces.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>

#include "base/page.h"
#include "io/preparation.h"

namespace wherry::io {

std::optional<std::size_t> sum_of(const iovec* pieces, std::size_t count) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len > SSIZE_MAX - sum) return std::nullopt;
    sum += pieces[i].iov_len;
  }
  return sum;
}

std::size_t cut(const iovec* pieces, std::size_t count, std::size_t skip, std::size_t bytes,
                iovec* part) {
  std::size_t cut_out = 0;
  for (std::size_t i = 0; i < count && bytes != 0; ++i) {
    const iovec& piece = pieces[i];
    if (skip >= piece.iov_len) {
      skip -= piece.iov_len;
      continue;
    }
    const std::size_t length = std::min(piece.iov_len - skip, bytes);
    part[cut_out++] = {static_cast<char*>(piece.iov_base) + skip, length};
    bytes -= length;
    skip = 0;
  }
  return cut_out;
}

OwnPieces::OwnPieces(std::size_t count, std::size_t bytes, std::size_t further) : room_(bytes) {
  const std::size_t arrays = (2 * count + further) * sizeof(iovec);
  // Before each piece there may be a gap, which gives it the right place within its page.
  const std::size_t all = arrays + bytes + (count + 1) * impl::page_size;
  const int errno_before = errno;
  // No memory is reserved: Linux creates only the pages that are used.
  void* const memory = ::mmap(nullptr, all, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  errno = errno_before;
  if (memory == MAP_FAILED) return;
  memory_ = memory;
  mapped_ = all;
  own_ = static_cast<iovec*>(memory);
  theirs_ = own_ + count;
  further_ = theirs_ + count;
  bytes_ = reinterpret_cast<char*>(further_ + further);
}

OwnPieces::~OwnPieces() {
  if (memory_ == nullptr) return;
  const int errno_before = errno;
  ::munmap(memory_, mapped_);
  errno = errno_before;
}

std::size_t OwnPieces::take(const iovec* pieces, std::size_t count, std::size_t skip,
                            std::size_t bytes) {
  const std::size_t listed = cut(pieces, count, skip, bytes, theirs_);
  std::size_t taken = 0;
  std::size_t left = room_;
  auto place = reinterpret_cast<std::uintptr_t>(bytes_);
  for (count_ = 0; count_ < listed; ++count_) {
    iovec& piece = theirs_[count_];
    const std::size_t managed = managed_bytes(piece.iov_base, piece.iov_len);
    if (managed == 0) {
      own_[count_] = piece;
      taken += piece.iov_len;
      continue;
    }
    const std::size_t length = std::min(managed, left);
    if (length == 0) break;
    place += (reinterpret_cast<std::uintptr_t>(piece.iov_base) - place) % impl::page_size;
    own_[count_] = {reinterpret_cast<void*>(place), length};
    place += length;
    left -= length;
    taken += length;
    if (length < piece.iov_len) {
      ++count_;
      break;
    }
  }
  return taken;
}

void OwnPieces::collect() const {
  for (std::size_t i = 0; i < count_; ++i)
    if (own_[i].iov_base != theirs_[i].iov_base)
      std::memcpy(own_[i].iov_base, theirs_[i].iov_base, own_[i].iov_len);
}

void OwnPieces::deliver(ssize_t result) const {
  // With MSG_TRUNC the result is the length of the datagram, which may exceed the buffers.
  std::size_t left = result > 0 ? static_cast<std::size_t>(result) : 0;
  for (std::size_t i = 0; i < count_ && left != 0; ++i) {
    const std::size_t length = std::min(left, own_[i].iov_len);
    if (own_[i].iov_base != theirs_[i].iov_base)
      std::memcpy(theirs_[i].iov_base, own_[i].iov_base, length);
    left -= length;
  }
}

}  // namespace wherry::io
