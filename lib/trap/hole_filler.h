// What a trap needs of a pool file if no userfaultfd of the process fills it. SparsePoolFile
// (memory/pool.h) implements it.
#pragma once

#include <cstddef>

#include "base/page.h"
#include "os/memory/userfaultfd.h"

namespace wherry::impl {

class HoleFiller {
 public:
  virtual ~HoleFiller() = default;
  // Puts copies of the pages at `source` into the file, without mapping them at any processor.
  // Requires: the file holds no page in the span.
  [[nodiscard]] virtual OpResult fill(PageSpan span, const std::byte* source) = 0;
  // Fills the span with zero pages.
  [[nodiscard]] virtual OpResult fill_zero(PageSpan span) = 0;
};

}  // namespace wherry::impl
