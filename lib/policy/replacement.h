// Which block leaves a full pool: made so that neither a sweep over more than fits nor a passing
// scan empties it of what is used again, though accesses to resident pages are invisible but for
// samples.
//
// The blocks of a pool are in three queues, oldest first. Those that have just come are on trial,
// apart for those that were never evicted before (fresh) and those that were (returned); few are,
// so most of a full pool is kept:
//
//   came ---> fresh or returned --- the trial is full: the more useful group's oldest ---> kept
//                    |                                                                       |
//                    +---------------------------- evicted ----------------------------------+
//
// How soon a block is missed after its eviction is seen, since it faults then. For each queue that
// is counted, and the queue whose victims are missed least gives the next victim; where they are
// alike, what came last goes first: that keeps a part of a sweep, where the order of coming would
// keep nothing. Now and then a kept block is evicted in any case, to learn whether it is missed. A
// kept block that is watched, and not touched for twice as long as it takes a block on trial to be
// missed, is not used any more, and goes first.
//
// Bookkeeping alone: no memory but a place for each block, which is given, no clock but the number
// of evictions. Guarded by the pool's lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/page_mask.h"

namespace wherry::impl {

// What is remembered of a block, also while the pool holds none of it. Zeros: nothing.
struct ReplacementLinks {
  std::uint32_t older = 0;  // block number + 1; 0 is "none"
  std::uint32_t younger = 0;
  std::uint32_t evicted_at = 0;  // by the count of evictions
  std::uint32_t watched_at = 0;  // likewise
  std::uint8_t group = 0;        // the queue it is in
  std::uint8_t left_group = 0;   // ... and was in when it was evicted
  bool watched = false;
};

class Replacement {
 public:
  enum class LeftBy {
    evicted,
    otherwise
  };

  // links[i] is block i's.
  explicit Replacement(std::span<ReplacementLinks> links) : links_(links) {}

  // The pool holds pages of the block now. Requires: it did not.
  void came(std::uint64_t block);
  // ... and no more. Requires: it did.
  void left(std::uint64_t block, LeftBy how);
  // It is in use: more of its pages came, or one of its pages that are watched was touched. Nothing
  // where the pool holds none of it.
  void touched(std::uint64_t block);
  // The victim cannot be evicted at the moment: others are first. Nothing where the pool holds none
  // of it.
  void passed_over(std::uint64_t block);

  // Which block should leave first; none when there is none. The same until something changes.
  std::optional<std::uint64_t> victim() const;

  // The next block of which a touch should be made visible; none when the oldest ones are watched
  // already. It counts as watched from now on.
  std::optional<std::uint64_t> watch();

  // Whether a block of which these pages are evicted comes back as a whole, if it does: it was
  // filled from one end to the other. What came in pieces is more than what its next touch needs.
  static constexpr bool leaves_as_one(const PageMask& pages) {
    const PageRun run = pages.next_run(0);
    return run.count >= pages_per_block / 2 && pages == PageMask::of(run);
  }

  // ... and whether its pool is large enough for that: in a pool of a few blocks the others' pages
  // would have to leave for it, and then come back in its place.
  static constexpr bool returns_as_one(PageRun stretch, std::uint64_t capacity_pages) {
    return 2 * std::uint64_t{stretch.count} <= capacity_pages;
  }

  // Whether a touch of it would be seen.
  bool is_watched(std::uint64_t block) const { return links(block).watched; }

  std::uint64_t size() const { return size_; }

  // Asserts that links and sizes agree. For tests: takes as long as there are blocks.
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
    std::uint32_t oldest = 0;  // block number + 1; 0: it is empty
    std::uint32_t youngest = 0;
    std::uint64_t size = 0;
  };
  // How many victims of a queue there were, and how many of them were missed, each counting less
  // with each later victim.
  struct Record {
    std::uint32_t victims = 0;
    std::uint32_t missed = 0;

    void add_victim();
    void add_missed();
    // In 1/256 of the victims.
    std::uint32_t missed_share() const;
  };

  // A kept block that was evicted, of which it is not known yet whether it is missed. They count
  // when that is known: a record of victims that are too young to be missed would have all of the
  // kept ones evicted.
  struct Probe {
    std::uint32_t place = 0;  // block number + 1; 0: none
    std::uint32_t evicted_at = 0;
  };

  ReplacementLinks& links(std::uint64_t block) const { return links_[block]; }
  Queue& queue(Group group) { return queues_[group]; }
  const Queue& queue(Group group) const { return queues_[group]; }
  std::uint64_t on_trial() const { return queue(fresh).size + queue(returned).size; }
  // How many blocks may be on trial.
  std::uint64_t trial_max() const;
  // Of the two groups on trial, the one to lose a block, and the one to have one kept.
  Group less_useful_trial() const;
  Group more_useful_trial() const;
  bool kept_goes_first() const;
  bool kept_is_less_useful(std::uint32_t trial_missed, std::uint32_t missed_after) const;
  void push(std::uint64_t block, Group group);
  void take_out(std::uint64_t block);
  void fill_kept();
  void begin_probe(std::uint64_t block);
  void end_probe(std::uint64_t block);
  // Those that were not missed in time.
  void end_late_probes();

  const std::span<ReplacementLinks> links_;
  std::array<Queue, groups> queues_{};
  std::array<Record, groups> records_{};
  std::array<Probe, 8> probes_{};
  std::uint64_t size_ = 0;
  std::uint32_t evictions_ = 0;      // the clock; goes round
  std::uint32_t passed_over_ = 0;    // blocks in a row that could not be evicted
  std::uint32_t last_of_kept_ = 0;   // when a kept block was evicted last
  std::uint32_t last_of_trial_ = 0;  // ... and one on trial
  std::uint32_t missed_after_ =
      0;  // how many evictions later a block on trial is missed, on average, times 8
};

}  // namespace wherry::impl
