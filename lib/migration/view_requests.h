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
    // Map the pages that pools hold at p. Where p's view does not show such a pool, change it.
    see,
    // Change p's view of the pages to its own pool.
    home,
    // Like home, but only for pages that no pool holds when the request is carried out.
    tidy,
  };
  // The request is carried out later, or at once in a replay. Returns false if it is declined: p
  // may have no more mappings at the moment, its views cannot be changed, or there is no memory.
  [[nodiscard]] virtual bool request(Processor p, BlockIndex block, const PageMask& pages,
                                     Wish wish) = 0;
  // Carries out a request before it returns. Waits for other changes of p's views, so do not call
  // it under a block's lock, nor in a thread that resolves faults.
  virtual void carry_out(Processor p, BlockIndex block, const PageMask& pages, Wish wish) = 0;
  // Withdraws earlier `see` requests for these pages at p. Changes that were already made stay.
  // Call it under the block's lock.
  virtual void withdraw(Processor p, BlockIndex block, const PageMask& pages) = 0;
  // Whether the processor has left a command without an answer for a second, and has not answered
  // since. Then its requests stay in the queue, and nobody waits for them. Any thread, also under a
  // block's lock.
  virtual bool is_overdue(Processor) { return false; }
  // Waits until all earlier requests have been carried out, except for those of processors that are
  // overdue; returns false if there are such, or after `limit_ms`. Do not call it under a block's
  // lock, nor in a thread that resolves faults.
  virtual bool wait_until_done(int limit_ms) = 0;
  // Waits until all earlier requests for p's view have been carried out. Returns false if p is
  // overdue, or after `limit_ms`.
  virtual bool wait_until_done(Processor p, int limit_ms) = 0;
};

}  // namespace wherry::impl
