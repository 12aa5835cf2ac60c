// What one call asked to have moved, or forgotten, ahead of its use. A value. Its pages may be
// freed before it is done, when their stream's work was thrown away: who carries it out looks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/page.h"
#include "pages/advice.h"

namespace wherry::impl {

struct PrefetchRange {
  PageSpan pages;  // all that the bytes touch
  PageSpan
      whole;    // of those, the ones that hold nothing but these bytes: a discard may forget them
  Location to;  // of a prefetch: a device, the host, or a node of it
};

struct PrefetchRequest {
  enum class Kind {
    prefetch,              // `pages` come to `to`, with their contents
    discard,               // the contents of `whole` are not needed any more
    discard_and_prefetch,  // both: `whole` comes without contents, the rest of `pages` with them
  };

  std::vector<PrefetchRange> ranges;  // in the order in which they are to be done
  Kind kind = Kind::prefetch;
  // The same for everything that a stream prefetched between two of its kernels.
  std::uint32_t epoch = 0;
};

}  // namespace wherry::impl
