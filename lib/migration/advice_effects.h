// Effects of advice beyond the fault that is being resolved: keeps pages mapped at the processors
// that are advised to access them, ends copies that are no longer wanted, and removes remote
// mappings so that the next accesses fault and new advice applies.
#pragma once

#include <atomic>
#include <span>

#include "migration/page_engine.h"
#include "migration/view_requests.h"
#include "pages/advice.h"
#include "pages/block_directory.h"

namespace wherry::impl {

class AdviceEffects {
 public:
  AdviceEffects(PageEngine& engine, ViewRequests& views, BlockDirectory& blocks,
                const AdviceMap& advice)
      : engine_(engine), views_(views), blocks_(blocks), advice_(advice) {}

  // Whether any page has advice.
  bool advises() const { return !advice_.empty(); }
  // Returns the page's advice, and the span around it that has the same advice. Read-mostly is left
  // out while copies are forbidden.
  AdviceMap::Segment advice_at(PageIndex page) const;

  // Pages of the block that must stay in the pool where they are.
  PageMask pinned(BlockIndex block) const { return advice_.pinned(block); }

  // Maps at p those of the pages that p's view shows. Returns the pages that p does not map yet.
  PageMask enter_shown(const LockedBlock& block, const PageMask& pages, Processor p)
      REQUIRES(block.state.lock);
  enum class Shown {
    yes,
    pending,  // a change of p's view is under way: the caller tries again later
    // The request was declined, or p does not answer commands (overdue): the pages have to move to
    // the pool that p's view shows.
    declined,
  };
  // Maps the pages that pools hold at p, in whatever pool they are.
  Shown show(const LockedBlock& block, const PageMask& pages, Processor p)
      REQUIRES(block.state.lock);
  // Maps the pages at the host, and waits until the host's view has changed for that. Call it
  // without the block's lock, not in a thread that resolves faults.
  void show_on_host(BlockIndex block, const PageMask& pages) {
    views_.carry_out(Processor::host(), block, pages, ViewRequests::Wish::see);
  }
  // Call after pages have moved, or after their advice has changed: maps them at the processors
  // that are advised to access them. Returns false if a change of a view is pending for that.
  // Declined changes do not count, nor do those of processors that are overdue.
  bool follow(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);

  // The temporary pin of the pages has ended. Where a processor's view of them shows another pool,
  // changes it back to the processor's own, so that the next access faults; not at processors that
  // are advised to access the pages. Returns true if no such view is left; otherwise the caller
  // calls this again later.
  bool end_temporary_pin(const LockedBlock& block, const PageMask& pages)
      REQUIRES(block.state.lock);

  // The host has written pages that had copies in other pools: moves them to the host node that is
  // their preferred location, if there is one.
  void settle_on_host(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);

  // The program has given this advice on the pages: does what cannot wait for the next fault.
  // Returns true if views are still to be changed; then the caller calls wait_for_views().
  [[nodiscard]] bool apply(PageSpan pages, const AdviceChange& change);
  // Returns when the views that apply() asked for have changed, at most a second later. Does not
  // wait for processors that are overdue.
  void wait_for_views();
  // forbid_copies(): read-mostly advice has no effect from now on, and existing copies end.
  // permit_copies(): it has its effect again.
  void forbid_copies();
  void permit_copies();
  // p may no longer access these pages in other processors' pools: changes p's views of them back
  // to its own pool. Returns false if p may still map some of them, because its views could not be
  // changed within a second, or p is overdue.
  bool take_back(std::span<const PageSpan> spans, Processor p);
  // The pages have been freed: withdraws requests to map them, and requests that views of other
  // pools are changed back.
  void released(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);

 private:
  // Removes the first run of equal advice from `left`, and returns it.
  AdviceMap::Segment take_segment(PageSpan& left) const;
  // Pages for which p's view shows the pool of a processor with another page table, or is being
  // changed.
  PageMask sees_others(const LockedBlock& block, Processor p) const REQUIRES(block.state.lock);
  // Leaves one copy of each page, the preferred location's if it has one.
  void collapse(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);
  // Request that all views of the pages, or p's, change back to the processors' own pools. Return
  // true if a change was needed and requested.
  bool send_all_home(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);
  bool send_home(const LockedBlock& block, PageRun run, Processor p) REQUIRES(block.state.lock);

  PageEngine& engine_;
  ViewRequests& views_;
  BlockDirectory& blocks_;
  const AdviceMap& advice_;
  std::atomic<bool> copies_forbidden_{false};
};

}  // namespace wherry::impl
