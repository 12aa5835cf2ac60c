// Zero pages for large bookkeeping structures; only committed parts are accessible. The rest is
// inaccessible address space: it has no commit charge (vm.overcommit_memory=2), mlockall() does not
// populate it, and core dumps do not contain it.
#pragma once

#include <cstddef>
#include <vector>

#include "os/memory/mapping.h"

namespace wherry::impl {

class SparseMemory {
 public:
  // Initially inaccessible. Uses 2 MiB pages from offset `huge_from` on, if Linux has some: with
  // small pages, random accesses to a large area cost more for page-table walks than for cache
  // misses. Not inherited by fork(). Throws std::system_error.
  explicit SparseMemory(std::size_t bytes, std::size_t huge_from = no_huge_pages);

  std::byte* data() const { return range_.data(); }
  std::size_t size() const { return range_.size(); }

  // Makes these bytes, and some around them, accessible permanently. Returns 0 or an errno: ENOMEM.
  // The caller serializes calls; other threads may meanwhile use what is already accessible.
  [[nodiscard]] int commit(std::size_t offset, std::size_t bytes);

  static constexpr std::size_t no_huge_pages = ~std::size_t{0};

 private:
  Mapping range_;
  std::size_t chunk_bytes_;
  std::vector<bool> committed_;  // for each chunk
};

}  // namespace wherry::impl
