// What the page engine, the evictor and the view switcher of a live run do to pages, without the
// kernel: the state of blocks and the bookkeeping are the library's own (pages/block.h,
// migration/page_books.h), in place of the kernel operations there is a cost model, and in place of
// the clock the caller says what time it is.
//
// Decides nothing but which block leaves a full pool. One thread's; blocks are locked only because
// they require it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "migration/locked_block.h"
#include "migration/page_books.h"
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

// A block's index is its number in the replay.
class SimulatedEngine {
 public:
  using Block = impl::Block;
  using BlockIndex = impl::BlockIndex;
  using LockedBlock = impl::LockedBlock;
  using PageMask = impl::PageMask;
  using PageRun = impl::PageRun;
  using Processor = impl::Processor;
  using MoveCause = impl::MoveCause;

  // All outlive the engine.
  SimulatedEngine(const MachineSetting& setting, const CostModel& costs, const impl::Policy& policy,
                  const Stretches& stretches);

  Block& block(std::uint32_t number) {
    return *reinterpret_cast<Block*>(storage_.get() + number * stride_);
  }
  int processors() const { return processors_; }
  MachineCounts& counts() { return counts_; }

  // Begins an operation at this time. Its costs add up until the next one begins.
  void begin(std::uint64_t now_ns) {
    now_ns_ = now_ns;
    cost_ns_ = 0;
  }
  std::uint64_t cost_ns() const { return static_cast<std::uint64_t>(cost_ns_ + 0.5); }
  void add_cost(double ns) { cost_ns_ += ns; }

  // As PageEngine has them. The pool has space for the pages that come.
  void populate(const LockedBlock& block, PageRun run, Processor p) REQUIRES(block.state.lock);
  void migrate(const LockedBlock& block, PageRun run, Processor from, Processor to, MoveCause cause)
      REQUIRES(block.state.lock);
  void duplicate(const LockedBlock& block, PageRun run, Processor from, Processor to,
                 MoveCause cause) REQUIRES(block.state.lock);
  void collapse(const LockedBlock& block, PageRun run, Processor keeper) REQUIRES(block.state.lock);
  void release(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);
  // Maps the pages at p as p's view shows them.
  void map(const LockedBlock& block, const PageMask& pages, Processor p) REQUIRES(block.state.lock);
  // Maps the pages at p wherever they are, with a view that shows them there.
  void show(const LockedBlock& block, const PageMask& pages, Processor p)
      REQUIRES(block.state.lock);
  // p sees its own pool there again, and faults.
  void send_home(const LockedBlock& block, const PageMask& pages, Processor p)
      REQUIRES(block.state.lock);
  // A processor accesses what the owner's pool holds of the block: by a fault, or without one,
  // which is seen only where the replacement watches the block.
  void note_access(const LockedBlock& block, Processor owner) REQUIRES(block.state.lock) {
    page_books_->accessed(block, owner);
  }
  void note_hit(std::uint32_t number, Processor owner);

  bool has_space(Processor p, std::uint64_t pages) const {
    return pool(p).used + pages <= pool(p).capacity;
  }
  std::uint64_t capacity_pages(Processor p) const { return pool(p).capacity; }
  std::uint64_t free_pages(Processor p) const {
    return pool(p).capacity - std::min(pool(p).used, pool(p).capacity);
  }
  // The pages that are free before anything is evicted, also ahead of need.
  std::uint64_t spare_pages(Processor p) const {
    const std::uint64_t free = free_pages(p);
    return free - std::min(free, pool(p).low);
  }
  // Takes space that no block shows, or gives it back.
  void reserve(Processor p, std::uint64_t pages) { pool(p).used += pages; }
  void give_back(Processor p, std::uint64_t pages) { pool(p).used -= pages; }
  // Evicts until there is so much space. False: there cannot be. Not under a block's lock.
  bool evict_for(Processor p, std::uint64_t pages);
  // Evicts ahead of need, as the background evictor does; no thread waits for that. Not under a
  // block's lock.
  void keep_free(Processor p);

 private:
  struct Pool final : impl::PoolLedger {
    void give_back(std::uint64_t pages) override { used -= pages; }
    void arrived(BlockIndex block, std::uint64_t page, bool is_first) override;
    void emptied(BlockIndex block, impl::Replacement::LeftBy how) override;
    void accessed(BlockIndex block) override;
    impl::Counters& counters() override { return unused; }

    std::uint64_t capacity = ~std::uint64_t{0};
    std::uint64_t used = 0;
    std::uint64_t low = 0;  // watermarks of the background evictor, in pages that are free
    std::uint64_t high = 0;
    bool relieving = false;               // less than `low` were free, and not yet `high`
    std::uint64_t evicting_until_ns = 0;  // by the background evictor
    std::vector<impl::ReplacementLinks> links;
    std::optional<impl::Replacement> replacement;  // of devices
    impl::Counters unused;
  };
  struct FreeBlocks {
    std::size_t count = 0;
    std::size_t stride = 0;
    void operator()(std::byte* storage) const;
  };

  Pool& pool(Processor p) { return *pools_[static_cast<std::size_t>(p.index)]; }
  const Pool& pool(Processor p) const { return *pools_[static_cast<std::size_t>(p.index)]; }
  bool evict_one(Processor p);
  bool evict(BlockIndex index, Processor p);
  void allow_writes(const LockedBlock& block, PageRun run, Processor owner)
      REQUIRES(block.state.lock);
  void protect(const LockedBlock& block, PageRun run, Processor owner) REQUIRES(block.state.lock);
  // When pages arrive that are being brought now. It does not go back for one block: pages may be
  // evicted while they are still on their way.
  std::uint64_t arrival_ns(const LockedBlock& block);

  const CostModel& costs_;
  const Stretches& stretches_;
  const int processors_;
  const std::size_t stride_;
  const std::unique_ptr<std::byte[], FreeBlocks> storage_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::optional<impl::PageBooks> page_books_;  // made after the pools
  std::vector<std::uint64_t> arrivals_ns_;     // by block: the latest
  MachineCounts counts_;
  std::uint64_t now_ns_ = 0;
  double cost_ns_ = 0;  // of the operation that has begun
};

}  // namespace wherry::replay
