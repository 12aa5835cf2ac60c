// Chooses which block is evicted from a full pool. Neither a sweep over more memory than fits nor a
// passing scan should evict the blocks that are used again, although accesses to resident pages are
// visible only as samples.
//
// The blocks of a pool are in three queues, oldest first. Blocks that have just come are on trial:
// in `fresh` if they were never evicted before, in `returned` if they were. Few blocks are on
// trial, so most of a full pool is in `kept`:
//
//   came ---> fresh or returned --- the trial is full: the more useful group's oldest ---> kept
//                    |                                                                       |
//                    +---------------------------- evicted ----------------------------------+
//
// A block that is needed again after its eviction faults, so this class sees how soon each victim
// is missed. It counts missed victims for each queue. The queue whose victims are missed least
// gives the next victim. If they are missed equally, the blocks on trial are evicted first: that
// keeps a part of a sweep, while evicting in the order of arrival would keep nothing. From time to
// time a kept block is evicted regardless, to learn whether it is missed. A kept block that is
// sampled and not accessed for twice the time after which a block on trial is missed is no longer
// in use, and is evicted first.
//
// This class only keeps books. Its only memory is one entry for each block, which the caller
// provides; its only clock is the number of evictions. Guarded by the pool's lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/page_mask.h"

namespace wherry::impl {

// The state of one block, which is kept even when the pool holds no page of the block. All zeros:
// no history.
struct ReplacementLinks {
  std::uint32_t older = 0;  // block number + 1; 0: none
  std::uint32_t younger = 0;
  std::uint32_t evicted_at = 0;  // number of evictions at that time
  std::uint32_t sampled_at = 0;  // likewise; valid if `sampled`
  std::uint8_t group = 0;        // the queue that it is in
  std::uint8_t left_group = 0;   // the queue that it was evicted from, or none
  bool sampled = false;
};

class Replacement {
 public:
  enum class LeftBy {
    evicted,
    otherwise
  };

  // links[i] belongs to block i.
  explicit Replacement(std::span<ReplacementLinks> links) : links_(links) {}

  // The pool has begun to hold pages of the block. Requires: it held none.
  void came(std::uint64_t block);
  // The pool has stopped to hold pages of the block. Requires: it held some.
  void left(std::uint64_t block, LeftBy how);
  // The block is in use: more of its pages came, or a sampled access hit one of its sampled pages.
  // No effect if the pool holds no page of it.
  void accessed(std::uint64_t block);
  // The victim cannot be evicted now; other blocks come first. No effect if the pool holds no page
  // of it.
  void passed_over(std::uint64_t block);

  // Returns the block that should be evicted next, or nullopt if the pool holds no block. The
  // result does not change until the state does.
  std::optional<std::uint64_t> victim() const;

  // Returns the next block whose accesses should be made visible, and marks it as sampled. Returns
  // nullopt if the oldest kept blocks are sampled already.
  std::optional<std::uint64_t> sample();

  // Whether a block with these pages is evicted as a whole, so that it may later return as a whole:
  // it was filled from one end to the other. A block that was filled in pieces has more pages than
  // its next access needs.
  static constexpr bool leaves_as_one(const PageMask& pages) {
    const PageRun run = pages.next_run(0);
    return run.count >= pages_per_block / 2 && pages == PageMask::of(run);
  }

  // Whether a pool of this capacity is large enough for the stretch to return as a whole. In a pool
  // of a few blocks, pages of other blocks would be evicted for it and then come back in its place.
  static constexpr bool returns_as_one(PageRun stretch, std::uint64_t capacity_pages) {
    return 2 * std::uint64_t{stretch.count} <= capacity_pages;
  }

  // Whether an access to the block would be seen.
  bool is_sampled(std::uint64_t block) const { return links(block).sampled; }

  std::uint64_t size() const { return size_; }

  // Asserts that links and sizes agree. For tests: takes time proportional to the number of blocks.
  void check_invariants() const;

 private:
  enum Group : std::uint8_t {
    none,
    fresh,
    returned,
    kept
  };
  static constexpr std::size_t groups = 4;

  struct Queue {
    std::uint32_t oldest = 0;  // block number + 1; 0: the queue is empty
    std::uint32_t youngest = 0;
    std::uint64_t size = 0;
  };
  // Decaying counts of a queue's victims, and of those that were missed.
  struct Record {
    std::uint32_t victims = 0;
    std::uint32_t missed = 0;

    void add_victim();
    void add_missed();
    // The share of victims that were missed, in 1/256.
    std::uint32_t missed_share() const;
  };

  // A kept block that was evicted and of which it is not yet known whether it is missed. It counts
  // as a victim only when that is known: a record of victims that are too young to be missed would
  // have all kept blocks evicted.
  struct Probe {
    std::uint32_t place = 0;  // block number + 1; 0: an unused probe
    std::uint32_t evicted_at = 0;
  };

  ReplacementLinks& links(std::uint64_t block) const { return links_[block]; }
  Queue& queue(Group group) { return queues_[group]; }
  const Queue& queue(Group group) const { return queues_[group]; }
  std::uint64_t on_trial() const { return queue(fresh).size + queue(returned).size; }
  // The largest number of blocks that may be on trial.
  std::uint64_t trial_max() const;
  // Of the two groups on trial: the one that loses the next block to an eviction, and the one whose
  // oldest block is kept next.
  Group less_useful_trial() const;
  Group more_useful_trial() const;
  bool kept_goes_first() const;
  bool kept_is_less_useful(std::uint32_t trial_missed, std::uint32_t missed_after) const;
  void push(std::uint64_t block, Group group);
  void take_out(std::uint64_t block);
  void fill_kept();
  void begin_probe(std::uint64_t block);
  void end_probe(std::uint64_t block);
  // Ends the probes of blocks that were not missed in time.
  void end_late_probes();

  const std::span<ReplacementLinks> links_;
  std::array<Queue, groups> queues_{};
  std::array<Record, groups> records_{};
  std::array<Probe, 8> probes_{};
  std::uint64_t size_ = 0;
  std::uint32_t evictions_ = 0;      // the clock; wraps around
  std::uint32_t passed_over_ = 0;    // consecutive blocks that could not be evicted
  std::uint32_t last_of_kept_ = 0;   // when a kept block was last evicted
  std::uint32_t last_of_trial_ = 0;  // when a block on trial was last evicted
  // Mean number of evictions after which a block on trial is missed, times distance_weight (8).
  std::uint32_t missed_after_ = 0;
};

}  // namespace wherry::impl
