// A value: the prefetch or discard that one call requests. The pages may be freed before it is
// done, if the stream's work is dropped; the prefetcher checks that.
#pragma once

#include <cstdint>
#include <vector>

#include "base/page.h"
#include "pages/advice.h"

namespace wherry::impl {

struct PrefetchRequest {
  struct Range {
    PageSpan pages;  // all pages that the bytes overlap
    PageSpan whole;  // pages that hold no other bytes, and may be discarded
    Location to;     // of a prefetch: a device, the host, or one of its nodes
    // The number of the allocation, which the prefetcher sets, to recognize a later allocation
    // there.
    std::uint64_t allocation = 0;
  };
  enum class Kind {
    prefetch,              // brings `pages` to `to`, with their contents
    discard,               // the contents of `whole` are no longer needed
    discard_and_prefetch,  // brings `whole` without its contents, the rest of `pages` with them
    // Brings those blocks of `pages` that another pool holds alone, and that have no advice, as
    // whole blocks. Nothing is evicted for them. Their first access maps them.
    read_ahead,
  };

  std::vector<Range> ranges;  // in the order in which they are to be done
  Kind kind = Kind::prefetch;
  // A number that all prefetches of a stream between two of its kernels have in common.
  std::uint32_t epoch = 0;
};

}  // namespace wherry::impl
