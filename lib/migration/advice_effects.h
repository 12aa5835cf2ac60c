// What advice asks for beyond the fault at hand: pages stay mapped where the program said that they
// are accessed, copies end when they are not wanted any more, and remote mappings give way to the
// faults that a new advice needs to see.
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
  // What the program has said of the page, and how far that reaches. Read-mostly is left out while
  // copies are forbidden.
  AdviceMap::Segment advice_at(PageIndex page) const;

  // Pages of the block that nobody may take out of the pool where they are.
  PageMask pinned(BlockIndex block) const { return advice_.pinned(block); }

  enum class Shown {
    yes,
    pending,   // a view is being changed: look again
    declined,  // the process may have no more mappings: the pages have to come to its view
  };
  // Has p map pages that pools hold, wherever they are.
  Shown show(const LockedBlock& block, const PageMask& pages, Processor p)
      REQUIRES(block.state.lock);
  // The pages have come to where they are: has them mapped again by whoever is advised to access
  // them. True: they are, as far as they can be.
  bool follow(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);

  // Pages that stayed where they are for others' sake need not any more: who maps them elsewhere
  // than at home, and is not advised to, faults again. True: nobody does any more; else it has been
  // requested, and is to be asked again.
  bool end_temporary_pin(const LockedBlock& block, const PageMask& pages)
      REQUIRES(block.state.lock);

  // The host has written pages, which had copies elsewhere: they go to the node of the host that is
  // preferred for them, if there is one.
  void settle_on_host(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);

  // `change` was said of the pages: does what cannot wait for the next fault. Returns when the
  // views that this concerns have changed, at most a second later.
  void apply(PageSpan pages, const AdviceChange& change);
  // Read-mostly means nothing from now on, and existing copies end; or it means something again.
  void forbid_copies();
  void permit_copies();
  // p may not access these pages of others' pools any more: it has no mapping of them when this
  // returns. False: it may still have, because for a second its views could not be changed.
  bool take_back(std::span<const PageSpan> spans, Processor p);
  // The pages are of nobody any more: nor are views of them.
  void released(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);

 private:
  // Has p map those of the pages that its view shows. Returns the pages that p does not map yet.
  PageMask enter_shown(const LockedBlock& block, const PageMask& pages, Processor p)
      REQUIRES(block.state.lock);
  // Takes the first stretch of equal advice off `left`.
  AdviceMap::Segment take_segment(PageSpan& left) const;
  // Leaves one copy of each page, the preferred location's if it has one.
  void collapse(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);
  // Each true: that takes a change, which has been requested.
  bool send_all_home(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);
  bool send_home(const LockedBlock& block, PageRun run, Processor p) REQUIRES(block.state.lock);

  PageEngine& engine_;
  ViewRequests& views_;
  BlockDirectory& blocks_;
  const AdviceMap& advice_;
  std::atomic<bool> copies_forbidden_{false};
};

}  // namespace wherry::impl
