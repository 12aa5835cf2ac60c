#include "runtime/processor_pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "os/files/fd.h"

namespace wherry::impl {
namespace {

std::string pool_name(Processor p) {
  return p.is_host() ? "wherry-pool-host" : fmt::format("wherry-pool-dev{}", p.ordinal());
}

}  // namespace

ProcessorPools::ProcessorPools(const RuntimeOptions& options) {
  for (int i = 0; i < options.processor_count(); ++i)
    pools_.push_back(std::make_unique<SparsePoolFile>(pool_name(Processor{i}), options.arena_bytes,
                                                      options.copying.huge_pages,
                                                      options.trap.userfaultfd, options.stripes()));
}

std::vector<PoolFiles> ProcessorPools::descriptors() const {
  std::vector<PoolFiles> all;
  for (const auto& pool : pools_) all.push_back(pool->file().descriptors());
  return all;
}

bool ProcessorPools::map_huge_pages() const {
  return std::ranges::all_of(pools_, [](const auto& pool) { return pool->maps_huge_pages(); });
}

bool ProcessorPools::views_permit_huge_pages() const {
  return std::ranges::all_of(pools_,
                             [](const auto& pool) { return pool->views_permit_huge_pages(); });
}

void ProcessorPools::place(const NodePlacement& placement) const {
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    const Processor p{static_cast<int>(i)};
    if (const int error = placement.place(*pools_[i], p))
      throw_errno(error, "cannot place " + pool_name(p) + " on its node");
  }
}

}  // namespace wherry::impl
