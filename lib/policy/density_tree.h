// Which neighbours come along with pages that faulted, as NVIDIA's driver has it ("tree-based
// neighbourhood prefetch"): their 64 KiB regions, and the largest naturally aligned part of the
// block that is dense by then, at its destination.
//
// More than half by default, so that a stride of twice a region never takes along what lies in
// between.
#pragma once

#include "base/page_mask.h"

namespace wherry::impl {

struct DensityTree {
  unsigned threshold_percent = 51;  // a part is dense with more than this of its pages

  // Pages besides `faulted` that should come. `present`: what the destination holds; `barred`:
  // pages that thrash, which neither come along nor bring others; `stretch`: what may come at all,
  // where parts end.
  PageMask neighbours(const PageMask& faulted, const PageMask& present, const PageMask& barred,
                      PageRun stretch) const;
};

}  // namespace wherry::impl
