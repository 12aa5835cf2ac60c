// The pool of each processor: sparse files as large as the arena, in which the pages lie that
// are resident at the processor. All of them exist from the beginning to the end. The set does not
// change; any thread, no locks.
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
  // Whether every pool lets blocks that are huge pages be mapped as such.
  bool map_huge_pages() const;
  // Whether the views of all pools may permit huge pages everywhere.
  bool views_permit_huge_pages() const;

  // Has pages lie on their processors' nodes. Throws std::system_error. Requires: the pools are
  // empty.
  void place(const NodePlacement& placement) const;

 private:
  std::vector<std::unique_ptr<SparsePoolFile>> pools_;
};

}  // namespace wherry::impl
