// Zero pages for large bookkeeping, of which Linux knows only what was asked for. The rest is
// inaccessible address space: it takes no commit charge (vm.overcommit_memory=2), mlockall() does
// not populate it, and a core dump does not hold it.
#pragma once

#include <cstddef>
#include <vector>

#include "os/memory/mapping.h"

namespace wherry::impl {

class SparseMemory {
 public:
  // Inaccessible at first. With 2 MiB pages from `huge_from` bytes on, where the kernel has some:
  // looks at random places of much memory cost more in page tables than in caches. Not inherited by
  // fork(). Throws std::system_error.
  explicit SparseMemory(std::size_t bytes, std::size_t huge_from = no_huge_pages);

  std::byte* data() const { return range_.data(); }
  std::size_t size() const { return range_.size(); }

  // Makes these bytes, and some around them, accessible for good. Returns 0 or an errno: ENOMEM.
  // The caller serializes; other threads may use what is accessible already.
  [[nodiscard]] int commit(std::size_t offset, std::size_t bytes);

  static constexpr std::size_t no_huge_pages = ~std::size_t{0};

 private:
  Mapping range_;
  std::size_t chunk_bytes_;
  std::vector<bool> committed_;  // for each chunk
};

}  // namespace wherry::impl
