// Chooses the neighbours that come along with faulted pages, like NVIDIA's driver ("tree-based
// neighbourhood prefetch"): the faulted pages' 64 KiB regions, and then the largest naturally
// aligned part of the block that is dense at the destination once those have come.
//
// The default threshold is just above half, so that a stride of two regions never brings the
// regions that it skips.
#pragma once

#include "base/page_mask.h"

namespace wherry::impl {

struct DensityTree {
  unsigned threshold_percent = 51;  // a part with more than this share of its pages is dense

  // Returns the pages besides `faulted` that should come. `present`: pages that the destination
  // holds. `barred`: pages that thrash, which neither come along nor bring others. `stretch`: the
  // only pages that may come; larger parts are clipped to it.
  PageMask neighbours(const PageMask& faulted, const PageMask& present, const PageMask& barred,
                      PageRun stretch) const;
};

}  // namespace wherry::impl
