// Requests for changes of a processor's views, as the effects of advice make them. In a live run
// the view switcher carries them out (migration/view_switcher.h). A replay has no process whose
// mappings must change, and changes the page state at once.
#pragma once

#include "base/page_mask.h"
#include "base/processor.h"

namespace wherry::impl {

class ViewRequests {
 public:
  virtual ~ViewRequests() = default;

  enum class Wish {
    see,   // each page that a pool holds is mapped at p, whose view of it is changed where needed
    home,  // p's view of the pages is its own pool
    tidy,  // ... of those that no pool holds when it is carried out
  };
  // Carried out soon, or at once. False: p may have no more mappings at the moment, or its views
  // cannot be changed.
  [[nodiscard]] virtual bool request(Processor p, BlockIndex block, const PageMask& pages,
                                     Wish wish) = 0;
  // Nobody wishes any more that p sees these pages. What has been done of it stays. Under the
  // block's lock.
  virtual void withdraw(Processor p, BlockIndex block, const PageMask& pages) = 0;
  // Waits until what was requested before has been done; false after `limit_ms`. Never under a
  // block's lock, nor in a thread that answers faults.
  virtual bool wait_until_done(int limit_ms) = 0;
  // The same for what was requested of one processor's view.
  virtual bool wait_until_done(Processor p, int limit_ms) = 0;
};

}  // namespace wherry::impl
