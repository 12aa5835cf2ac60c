// The books of a replay: who holds, maps and may write which page, and how full each pool is. What
// a live run's page engine, evictor and view switcher do to them this does, with the same blocks
// (pages/block.h) and replacement; in place of the kernel there is a cost model, and in place of
// the clock somebody says when it is.
//
// Decides nothing but what leaves a full pool. One thread's, so locks are only held because blocks
// demand it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pages/block.h"
#include "policy/policy.h"
#include "policy/replacement.h"
#include "replay/cost_model.h"
#include "replay/stretches.h"

namespace wherry::replay {

struct MachineSetting {
  int processors = 1;
  std::array<std::uint64_t, impl::max_processors> capacity_pages{};  // 0: no limit
  unsigned region_pages = impl::pages_per_region;  // what a fault brings without an opinion
  std::span<const std::uint64_t> blocks;           // by number, which 2 MiB of addresses each is
};

struct MachineCounts {
  std::uint64_t faults = 0;
  std::uint64_t migrations = 0;  // as often as pages moved together
  std::uint64_t migrated_pages = 0;
  std::uint64_t mapped_pages = 0;  // remotely
  std::uint64_t duplicated_pages = 0;
  std::uint64_t evictions = 0;  // of blocks
  std::uint64_t throttled = 0;

  bool operator==(const MachineCounts&) const = default;
};

class PageBooks {
 public:
  using Block = impl::Block;
  using PageMask = impl::PageMask;
  using PageRun = impl::PageRun;
  using Processor = impl::Processor;
  using MoveCause = impl::MoveCause;

  // All outlive the books.
  PageBooks(const MachineSetting& setting, const CostModel& costs, const impl::Policy& policy,
            const Stretches& stretches);

  Block& block(std::uint32_t number) {
    return *reinterpret_cast<Block*>(storage_.get() + number * stride_);
  }
  const Block& block(std::uint32_t number) const {
    return *reinterpret_cast<const Block*>(storage_.get() + number * stride_);
  }
  int processors() const { return processors_; }
  MachineCounts& counts() { return counts_; }

  // It is this moment, and something begins whose cost is asked for later.
  void begin(std::uint64_t now_ns) {
    now_ns_ = now_ns;
    cost_ns_ = 0;
  }
  std::uint64_t cost_ns() const { return static_cast<std::uint64_t>(cost_ns_ + 0.5); }
  // Somebody waits for this, too.
  void add_cost(double ns) { cost_ns_ += ns; }

  // The following are as PageEngine has them. There is room for what comes.
  void populate(std::uint32_t number, Block& block, PageRun run, Processor p) REQUIRES(block.lock);
  void migrate(std::uint32_t number, Block& block, PageRun run, Processor from, Processor to,
               MoveCause cause) REQUIRES(block.lock);
  void duplicate(std::uint32_t number, Block& block, PageRun run, Processor from, Processor to,
                 MoveCause cause) REQUIRES(block.lock);
  void collapse(std::uint32_t number, Block& block, PageRun run, Processor keeper)
      REQUIRES(block.lock);
  void release(std::uint32_t number, Block& block, PageRun run) REQUIRES(block.lock);
  // Has p map the pages as its view shows them.
  void map(Block& block, const PageMask& pages, Processor p) REQUIRES(block.lock);
  // ... wherever they are, with a view that shows that.
  void show(Block& block, const PageMask& pages, Processor p) REQUIRES(block.lock);
  // p sees its own pool there again, and faults.
  void send_home(Block& block, const PageMask& pages, Processor p) REQUIRES(block.lock);

  // Somebody accesses what the owner's pool holds of the block: by a fault, or without one, which
  // only shows where it is watched.
  void note_access(std::uint32_t number, Processor owner);
  void note_hit(std::uint32_t number, Processor owner);

  bool has_room(Processor p, std::uint64_t pages) const {
    const Pool& its = pools_[static_cast<std::size_t>(p.index)];
    return its.used + pages <= its.capacity;
  }
  std::uint64_t capacity_pages(Processor p) const {
    return pools_[static_cast<std::size_t>(p.index)].capacity;
  }
  std::uint64_t free_pages(Processor p) const {
    const Pool& its = pools_[static_cast<std::size_t>(p.index)];
    return its.capacity - std::min(its.used, its.capacity);
  }
  // ... before anything is evicted, also ahead of need.
  std::uint64_t spare_pages(Processor p) const {
    const std::uint64_t free = free_pages(p);
    return free - std::min(free, pools_[static_cast<std::size_t>(p.index)].low);
  }
  // Room that blocks do not show is taken, or given back.
  void reserve(Processor p, std::uint64_t pages) { pool(p).used += pages; }
  void give_back(Processor p, std::uint64_t pages) { pool(p).used -= pages; }
  // Evicts until there is so much room. False: it cannot be had. Not under a block's lock.
  bool make_room(Processor p, std::uint64_t pages);
  // Evicts ahead of need, as the background evictor does; nobody waits for that. Not under a
  // block's lock.
  void keep_free(Processor p);

 private:
  struct Pool {
    std::uint64_t capacity = ~std::uint64_t{0};
    std::uint64_t used = 0;
    std::uint64_t low = 0;  // watermarks of the background evictor, in pages that are free
    std::uint64_t high = 0;
    bool relieving = false;               // less than `low` were free, and not yet `high`
    std::uint64_t evicting_until_ns = 0;  // by the background evictor
    std::vector<impl::ReplacementLinks> links;
    std::optional<impl::Replacement> replacement;  // of devices
  };
  struct FreeBlocks {
    std::size_t count = 0;
    std::size_t stride = 0;
    void operator()(std::byte* storage) const;
  };

  Pool& pool(Processor p) { return pools_[static_cast<std::size_t>(p.index)]; }
  bool evict_one(Processor p);
  bool evict(std::uint32_t number, Processor p);
  void drop(std::uint32_t number, Block& block, const PageMask& pages, Processor p, MoveCause cause)
      REQUIRES(block.lock);
  void allow_writes(Block& block, PageRun run, Processor owner) REQUIRES(block.lock);
  void protect(Block& block, PageRun run, Processor owner) REQUIRES(block.lock);
  void note_arrival(std::uint32_t number, Processor p, bool held_before);
  void note_departure(std::uint32_t number, const Block& block, Processor p, bool held_before,
                      MoveCause cause) REQUIRES(block.lock);
  void tell_policy(std::uint32_t number, Block& block, impl::Arrival arrival) REQUIRES(block.lock);

  const CostModel& costs_;
  const impl::Policy& policy_;
  const Stretches& stretches_;
  const int processors_;
  const std::size_t stride_;
  const std::unique_ptr<std::byte[], FreeBlocks> storage_;
  std::vector<Pool> pools_;
  std::vector<std::uint64_t> told_ns_;  // by block: when pages last came, as the policy knows
  MachineCounts counts_;
  std::uint64_t now_ns_ = 0;
  double cost_ns_ = 0;  // of what is under way
};

}  // namespace wherry::replay
