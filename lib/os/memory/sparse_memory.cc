#include "os/memory/sparse_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/page.h"
#include "os/files/fd.h"

namespace wherry::impl {
namespace {

// Each chunk may become a separate mapping, so there are few enough for vm.max_map_count. Chunks
// are also small enough for programs that use little.
constexpr std::size_t chunks_max = 256;
constexpr std::size_t chunk_min = std::size_t{64} << 10;

std::size_t chunk_for(std::size_t bytes) {
  return round_up(std::max(bytes / chunks_max, chunk_min), chunk_min);
}

}  // namespace

SparseMemory::SparseMemory(std::size_t bytes, std::size_t huge_from)
    : range_(Mapping::reserve(round_up(bytes, page_size), block_size)),
      chunk_bytes_(chunk_for(bytes)),
      committed_((bytes + chunk_bytes_ - 1) / chunk_bytes_) {
  if (::madvise(range_.data(), range_.size(), MADV_DONTFORK) != 0) throw_errno(errno, "madvise");
  if (const int error = leave_out_of_core_dumps(range_.address(), range_.size()))
    throw_errno(error, "madvise");
  // A Linux without huge pages refuses both calls; then pages are small.
  const std::size_t small = std::min(huge_from, range_.size());
  if (small > 0) (void)::madvise(range_.data(), small, MADV_NOHUGEPAGE);
  if (small < range_.size())
    (void)::madvise(range_.data() + small, range_.size() - small, MADV_HUGEPAGE);
}

int SparseMemory::commit(std::size_t offset, std::size_t bytes) {
  WHERRY_CHECK(offset + bytes <= range_.size(), "{}+{} of {} bytes", offset, bytes, range_.size());
  const std::size_t end = (offset + bytes + chunk_bytes_ - 1) / chunk_bytes_;
  for (std::size_t chunk = offset / chunk_bytes_; chunk < end; ++chunk) {
    if (committed_[chunk]) continue;
    const std::size_t start = chunk * chunk_bytes_;
    const std::size_t length = std::min(chunk_bytes_, range_.size() - start);
    if (const int error = set_access(range_.address() + start, length, Access::write)) return error;
    committed_[chunk] = true;
  }
  return 0;
}

}  // namespace wherry::impl
