// What the program says of its managed memory: advice (cuMemAdvise), where it asked pages to be
// prefetched to, which pages it pinned. Enters advice and pins in the AdviceMap, which fault
// handlers read, and starts the changes that cannot wait for a fault.
//
// Any thread may call. `lock` (LockOrder::advising) keeps allocations alive: advice and pins are
// entered while it is held shared, and ManagedHeap holds it exclusively while an allocation ends.
// So free pages have no advice and no pins.
#pragma once

#include <optional>

#include "base/lock.h"
#include "base/page.h"
#include "machine/topology.h"
#include "migration/advice_effects.h"
#include "pages/address_space.h"
#include "pages/advice.h"
#include "pages/arena_layout.h"
#include "runtime/processor_pools.h"

namespace wherry::impl {

class ProgramAdvice {
 public:
  // All outlive this.
  struct Parts {
    const Topology& topology;
    const ProcessorPools& pools;
    const ArenaLayout& layout;
    const AddressSpace& address_space;
    AdviceMap& map;
    AdviceEffects& effects;
  };

  explicit ProgramAdvice(const Parts& parts) : parts_(parts) {}

  // Whether these are pages of one live managed allocation.
  bool is_managed(PageSpan pages) const;
  // The advice on live pages. Free pages have none.
  const AdviceMap& map() const { return parts_.map; }
  // Where the program last asked live pages to be prefetched to.
  const LastPrefetches& last_prefetches() const { return last_prefetches_; }

  // Enters advice for the pages and applies it to those that exist. Returns false if they are not,
  // or no longer, part of one live managed allocation. Throws std::bad_alloc; nothing has changed
  // then.
  bool advise(PageSpan pages, const AdviceChange& change) EXCLUDES(lock);
  // Enters where the program asked the pages to be prefetched to. Returns false if they are not
  // part of one live managed allocation. Throws std::bad_alloc.
  bool note_prefetch(PageSpan pages, Location destination) EXCLUDES(lock);

  // Enters that the pages are pinned, or not. Throws std::bad_alloc; nothing has changed then.
  // Requires: they cannot be freed meanwhile, because the caller holds `lock` or has told no other
  // thread of the allocation.
  void enter_pin(PageSpan pages) { parts_.map.change(pages, {AdviceChange::Kind::pinned, {}}); }
  void enter_unpin(PageSpan pages) { parts_.map.change(pages, {AdviceChange::Kind::unpinned, {}}); }

  // Removes all that was said of pages whose allocation ends.
  void forget(PageSpan pages) REQUIRES(lock);

  SharedMutex lock{LockOrder::advising};

 private:
  // Does what newly entered advice requires at once. Returns true if wait_for_views() is to be
  // called.
  bool begin_effects(PageSpan pages, const AdviceChange& change);
  // Has Linux create new pages of the host's pool in this span on the node; nullopt means any of
  // the host's nodes.
  void place_on_host(PageSpan pages, std::optional<int> node);

  const Parts parts_;
  LastPrefetches last_prefetches_;
};

}  // namespace wherry::impl
