#include "policy/density_tree.h"

#include <algorithm>

namespace wherry::impl {
namespace {

// The naturally aligned part of `size` pages around the page, as far as the stretch goes.
PageRun part_around(unsigned page, unsigned size, PageRun stretch) {
  const unsigned start = page & ~(size - 1);
  const unsigned first = std::max(start, stretch.first);
  return {first, std::min(start + size, stretch.end()) - first};
}

}  // namespace

PageMask DensityTree::neighbours(const PageMask& faulted, const PageMask& present,
                                 const PageMask& barred, PageRun stretch) const {
  PageMask there = present | faulted;
  PageMask wanted;
  const PageMask causes = (faulted - barred) & PageMask::of(stretch);
  const auto for_each_cause = [&](const auto& visit) {
    for (const PageRun run : runs_of(causes))
      for (unsigned page = run.first; page < run.end(); ++page) visit(page);
  };
  for_each_cause([&](unsigned page) {
    const PageMask region = PageMask::of(part_around(page, pages_per_region, stretch));
    if ((region & barred).none()) wanted |= region;
  });
  there |= wanted;
  for_each_cause([&](unsigned page) {
    for (unsigned size = pages_per_block; size > 1; size /= 2) {
      const PageRun part = part_around(page, size, stretch);
      const PageMask pages = PageMask::of(part);
      if ((there & pages).count() * 100 <= part.count * threshold_percent) continue;
      wanted |= pages;
      break;
    }
  });
  return wanted - faulted - present - barred;
}

}  // namespace wherry::impl
