#include "address_extents.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "range_names.h"

namespace wherry::report {

void AddressExtents::add(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = tool::end_of(address, bytes);
  if (address >= end || (last_.begin <= address && end <= last_.end)) return;
  const std::uint64_t last_grain = UINT64_MAX - UINT64_MAX % grain_;
  const std::uint64_t begin = std::min(address - address % grain_, last_grain - grain_);
  insert({begin, end > last_grain - grain_ ? last_grain : (end + grain_ - 1) / grain_ * grain_});
  while (ends_.size() > extents_max_) coarsen();
}

std::vector<Extent> AddressExtents::take(std::size_t extents_max) {
  while (ends_.size() > extents_max) coarsen();
  std::vector<Extent> extents;
  for (const auto& [begin, end] : ends_) extents.push_back({begin, end});
  return extents;
}

void AddressExtents::insert(Extent extent) {
  auto next = ends_.upper_bound(extent.begin);
  if (next != ends_.begin() && std::prev(next)->second >= extent.begin) --next;
  while (next != ends_.end() && next->first <= extent.end) {
    extent.begin = std::min(extent.begin, next->first);
    extent.end = std::max(extent.end, next->second);
    next = ends_.erase(next);
  }
  ends_[extent.begin] = extent.end;
  last_ = extent;
}

void AddressExtents::coarsen() {
  grain_ *= 2;
  last_ = {};
  for (const auto& [begin, end] : std::exchange(ends_, {})) add(begin, end - begin);
}

}  // namespace wherry::report
