#include "io/whole.h"

#include <algorithm>
#include <cerrno>

#include "io/own_pieces.h"

namespace wherry::io {
namespace {

// Linux ends a call before a page that it cannot access. What ends elsewhere has another reason:
// the file's end, a limit, or data that are not there yet.
bool begins_a_managed_page(const iovec& rest) {
  return reinterpret_cast<std::uintptr_t>(rest.iov_base) % impl::page_size == 0 &&
         is_managed(rest.iov_base, 1);
}

}  // namespace

ssize_t call_for_whole(const iovec* pieces, std::size_t count, off64_t offset, Access access,
                       const FillCall& call) {
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
    if (!begins_a_managed_page(*arrays.further())) break;
    const off64_t at =
        offset == at_file_position ? at_file_position : offset + static_cast<off64_t>(done);
    const ssize_t result = prepared(arrays.further(), number, at);
    if (result <= 0) break;
    done += static_cast<std::size_t>(result);
  }
  errno = errno_before;
  return static_cast<ssize_t>(done);
}

}  // namespace wherry::io
