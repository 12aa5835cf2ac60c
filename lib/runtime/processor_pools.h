// The pool of each processor: sparse files as large as the arena, with the pages that are resident
// at the processor. The same pools exist as long as the runtime, so any thread may call, without
// locks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/processor.h"
#include "machine/node_placement.h"
#include "machine/runtime_options.h"
#include "memory/pool.h"

namespace wherry::impl {

class ProcessorPools {
 public:
  // Throws std::system_error.
  explicit ProcessorPools(const RuntimeOptions& options);

  SparsePoolFile& at(Processor p) const { return *pools_[static_cast<std::size_t>(p.index)]; }
  SparsePoolFile& host() const { return *pools_.front(); }
  // By processor.
  std::span<const std::unique_ptr<SparsePoolFile>> all() const { return pools_; }
  int count() const { return static_cast<int>(pools_.size()); }
  std::vector<PoolFiles> descriptors() const;
  // Whether, in every pool, one page-table entry may map a block that is a huge page.
  bool map_huge_pages() const;
  // Whether a view of any pool may permit huge pages at all addresses.
  bool views_permit_huge_pages() const;

  // Has Linux create pages on their processors' nodes. Throws std::system_error. Requires: the
  // pools are empty.
  void place(const NodePlacement& placement) const;

 private:
  std::vector<std::unique_ptr<SparsePoolFile>> pools_;
};

}  // namespace wherry::impl
