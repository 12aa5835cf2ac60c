// Brings memory to the processors that the program names, before they use it. The copiers work on a
// request block by block (migration/prefetch_task.h), while the program goes on.
//
// Memory stays usable meanwhile. A thread that accesses a page in flight waits for that transfer. A
// page whose turn has not come is handled as if there were no request, and its state is read again
// at its turn.
#pragma once

#include <functional>

#include "migration/prefetch_request.h"
#include "migration/prefetch_task.h"

namespace wherry::impl {

class Prefetcher {
 public:
  // Outlives the copiers.
  Prefetcher(const PrefetchParts& parts, const PrefetchLimits& limits)
      : parts_(parts), limits_(limits) {}

  // Returns at once. A copier calls done() once, when each page has had its turn. Pages for which
  // there is no space, or no memory, stay where they are. No page is brought twice: otherwise two
  // requests could take it from each other for ever.
  void submit(PrefetchRequest request, std::function<void()> done);
  // Whether the request is a prefetch that changes nothing: all pages are at their destination, and
  // mapped there. False also if that takes long to find out. Does not wait.
  bool is_done(const PrefetchRequest& request) const;

 private:
  class Job;

  bool is_done(PageSpan pages, Processor to) const;

  const PrefetchParts parts_;
  const PrefetchLimits limits_;
};

}  // namespace wherry::impl
