#include "policy/density_tree.h"

namespace wherry::impl {

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
    const PageMask region = PageMask::of(aligned_part(stretch, page, pages_per_region));
    if ((region & barred).none()) wanted |= region;
  });
  there |= wanted;
  for_each_cause([&](unsigned page) {
    for (unsigned size = pages_per_block; size > 1; size /= 2) {
      const PageRun part = aligned_part(stretch, page, size);
      const PageMask pages = PageMask::of(part);
      if ((there & pages).count() * 100 <= part.count * threshold_percent) continue;
      wanted |= pages;
      break;
    }
  });
  return wanted - faulted - present - barred;
}

}  // namespace wherry::impl
