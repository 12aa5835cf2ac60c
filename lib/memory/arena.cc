#include "memory/arena.h"

#include <algorithm>
#include <bit>

#include "base/page.h"
#include "os/files/fd.h"

namespace wherry::impl {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30;

}  // namespace

std::size_t Arena::default_size(std::uint64_t memory_bytes, int processors) {
  const std::uint64_t wanted = std::max<std::uint64_t>(1024 * gib, 16 * memory_bytes);
  return std::min<std::size_t>(round_up(wanted, gib), largest_size(processors));
}

std::size_t Arena::largest_size(int processors) {
  return round_down(64 * 1024 * gib / views(processors), gib);
}

std::size_t Arena::placed_bytes(std::size_t bytes) {
  return std::min(16 * gib, round_down(bytes / 16, block_size));
}

Arena::Arena(std::size_t bytes, const SparsePoolFile& host_pool)
    // An arena is aligned to its size, up to 1 GiB: a larger alignment would make a small arena
    // reserve a large range for a moment.
    : range_(Mapping::reserve(bytes, std::min(gib, std::bit_floor(bytes)))),
      layout_(range_.address(), bytes, placed_bytes(bytes)) {
  if (const int error = map_pool_view({range_.address(), bytes, 0}, 0, host_pool.file().fd(),
                                      host_pool.views_permit_huge_pages()))
    throw_errno(error, "cannot map the host's pool");
}

std::optional<std::size_t> Arena::next_open_bytes(std::size_t needed) const {
  if (needed <= open_bytes_) return std::nullopt;
  // Each step needs a round trip to every device process. Doubling keeps the number of steps
  // logarithmic.
  return std::min<std::size_t>(layout_.row_bytes(),
                               round_up(std::max(needed, 2 * open_bytes_), gib));
}

int Arena::open(std::size_t bytes) {
  if (const int error = set_access(layout_.base(), bytes, Access::write)) return error;
  open_bytes_ = bytes;
  return 0;
}

}  // namespace wherry::impl
