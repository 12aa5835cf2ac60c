#include "io/fill.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "base/page.h"
#include "io/claimed_stretch.h"
#include "io/own_pieces.h"
#include "io/preparation.h"
#include "io/whole.h"

namespace wherry::io {
namespace {

// No datagram, line or count that can be taken only once is longer.
constexpr std::size_t once_bytes_max = std::size_t{16} << 20;

enum class Way {
  into_their_memory,
  all_of_file,  // into their memory; repeated if Linux stopped at an absent page
  once,         // one call, into private memory
  in_parts,     // several calls, into private memory
};

bool delivers_once(int fd, mode_t mode) {
  if (S_ISSOCK(mode)) {
    int type = SOCK_STREAM;
    socklen_t size = sizeof type;
    return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type != SOCK_STREAM;
  }
  return !S_ISFIFO(mode) && !S_ISDIR(mode);
}

// Sets `about` if the way is all_of_file.
Way way_for(int fd, struct stat& about) {
  const int flags = ::fcntl(fd, F_GETFL);
  // A pipe has O_DIRECT for packets, which are ordinary reads.
  const bool is_direct = flags >= 0 && (flags & O_DIRECT) != 0;
  if (!is_direct && !prepares()) return Way::into_their_memory;
  if (::fstat(fd, &about) != 0) return Way::into_their_memory;
  if (S_ISREG(about.st_mode) || S_ISBLK(about.st_mode))
    return is_direct ? Way::in_parts : Way::all_of_file;
  const bool is_lost = prepares() ? delivers_once(fd, about.st_mode) : S_ISCHR(about.st_mode);
  return is_lost ? Way::once : Way::into_their_memory;
}

ssize_t refuse() {
  errno = ENOMEM;
  return -1;
}

ssize_t fill_once(const iovec* pieces, std::size_t count, off64_t offset, const FillCall& call) {
  std::size_t managed = 0;
  for (std::size_t i = 0; i < count; ++i)
    managed += std::min(managed_bytes(pieces[i].iov_base, pieces[i].iov_len), once_bytes_max);
  OwnPieces own(count, std::min(managed, once_bytes_max));
  if (!own.exist()) return refuse();
  own.take(pieces, count, 0, SIZE_MAX);
  const ssize_t result = call(own.pieces(), own.count(), offset);
  own.deliver(result);
  return result;
}

// Linux refuses a call if the place or the length of a piece is not aligned as the device needs,
// and it checks the whole array before it transfers anything. What it answers for a length that is
// not whole pages depends on the file's extents. So a call is divided only if all pieces are whole
// pages, and have the same place within a page.
bool is_divisible(const iovec* pieces, std::size_t count) {
  const auto place = [](const iovec& piece) {
    return reinterpret_cast<std::uintptr_t>(piece.iov_base) % impl::page_size;
  };
  const iovec* const end = pieces + count;
  const iovec* const first =
      std::find_if(pieces, end, [](const iovec& piece) { return piece.iov_len != 0; });
  return std::all_of(first, end, [&](const iovec& piece) {
    return piece.iov_len == 0 ||
           (piece.iov_len % impl::page_size == 0 && place(piece) == place(*first));
  });
}

ssize_t read_parts(const iovec* pieces, std::size_t count, off64_t offset, const FillCall& call,
                   std::size_t all, std::size_t part, std::size_t& done) {
  OwnPieces own(count, part);
  if (!own.exist()) return refuse();
  const int errno_before = errno;
  // The remainder comes first: if it is too short for the device, Linux refuses the call at once.
  std::size_t wanted = all % part != 0 ? all % part : part;
  while (done < all) {
    const std::size_t asked = own.take(pieces, count, done, wanted);
    const ssize_t result = call(own.pieces(), own.count(), behind(offset, done));
    if (result < 0 && done == 0) return result;
    if (result <= 0) break;
    own.deliver(result);
    done += static_cast<std::size_t>(result);
    if (static_cast<std::size_t>(result) < asked) break;
    wanted = std::min(part, all - done);
  }
  errno = errno_before;
  return static_cast<ssize_t>(done);
}

ssize_t fill_in_parts(int fd, iovec* pieces, std::size_t count, off64_t offset,
                      const FillCall& call) {
  const std::optional<std::size_t> sum = sum_of(pieces, count);
  if (!sum || *sum == 0) return call(pieces, count, offset);
  const std::size_t all = std::min(*sum, call_bytes_max);
  const bool divided = all > part_bytes && is_divisible(pieces, count);
  const std::size_t part = divided ? part_bytes : all;
  std::size_t done = 0;
  if (!divided || offset != at_file_position)
    return read_parts(pieces, count, offset, call, all, part, done);
  const ClaimedStretch stretch(fd, all, done);
  return read_parts(pieces, count, stretch.start(), call, all, part, done);
}

}  // namespace

ssize_t fill(int fd, iovec* pieces, std::size_t count, off64_t offset, const FillCall& call) {
  const int errno_before = errno;
  struct stat about;
  const Way way = way_for(fd, about);
  errno = errno_before;
  if (way == Way::once) return fill_once(pieces, count, offset, call);
  if (way == Way::in_parts) return fill_in_parts(fd, pieces, count, offset, call);
  if (way == Way::all_of_file)
    return call_for_whole(fd, about, pieces, count, offset, Access::write, call);
  return call_with_pieces(pieces, count, offset, Access::write, call);
}

}  // namespace wherry::io
