// What the program has said about the use of its memory: advice per page, kept per stretch of equal
// advice. Bookkeeping only: what advice does to pages is the business of the layers below.
//
// Stretches lie end to end from page 0 to the end of all pages, each as long as can be:
//
//   |  none  | read-mostly |  none    change([b, d), preferred)     |  none  | r-m | r-m, pref |
//   pref |  none
//   0        a             c       d  ----------------------->      0        a     b           c
//   d
//
// so the memory that this takes is bounded by the number of unequal neighbours. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>

#include "base/lock.h"
#include "base/page.h"
#include "base/page_mask.h"
#include "base/processor.h"

namespace wherry::impl {

// A place that memory can be in, as the API names it.
struct Location {
  enum class Kind : std::uint8_t {
    none,
    device,
    host,          // any of the host's nodes
    host_node,     // one of them
    callers_node,  // the one nearest to whoever named it: only said, never where anything is
  };

  Kind kind = Kind::none;
  // Ordinal of a device, number of a node, what the program said with callers_node, else 0.
  std::int32_t id = 0;

  static constexpr Location device(int ordinal) { return {Kind::device, ordinal}; }
  static constexpr Location host() { return {Kind::host, 0}; }
  static constexpr Location host_node(int node) { return {Kind::host_node, node}; }
  static constexpr Location callers_node(int said) { return {Kind::callers_node, said}; }

  constexpr bool is_none() const { return kind == Kind::none; }
  // Whose memory it is. Requires: not none.
  constexpr Processor processor() const {
    return kind == Kind::device ? Processor::device(id) : Processor::host();
  }
  constexpr bool operator==(const Location&) const = default;
};

// Everything that has been said of a page. By default: nothing.
struct Advice {
  bool read_mostly = false;
  // The program took read-mostly back: no policy may duplicate the page by its own judgement until
  // read-mostly is set again.
  bool no_duplication = false;
  Location preferred;
  ProcessorMask accessed_by = 0;
  Location last_prefetch;  // where the program last asked to move it
  bool pinned = false;     // it stays in the pool where it is, and has no copies

  bool operator==(const Advice&) const = default;
};

// One thing said.
struct AdviceChange {
  enum class Kind {
    set_read_mostly,
    unset_read_mostly,
    set_preferred,
    unset_preferred,
    set_accessed_by,
    unset_accessed_by,
    prefetched,
    pinned,
    unpinned,
  };

  Kind kind;
  Location location;  // of set_preferred, set_ and unset_accessed_by, prefetched

  void apply(Advice& advice) const;
};

class AdviceMap {
 public:
  // A stretch of pages with equal advice.
  struct Segment {
    PageSpan span;
    Advice advice;
  };

  // Costs O(log n) and the stretches in the span. Throws std::bad_alloc, and has then changed
  // nothing.
  void change(PageSpan span, const AdviceChange& change) EXCLUDES(lock_);
  // Nothing has been said of these pages any more.
  void forget(PageSpan span) EXCLUDES(lock_);

  // The longest stretch of equal advice around the page. The last one ends with the highest number.
  Segment at(std::uint64_t page) const EXCLUDES(lock_);

  // Calls visit(Segment) for the stretches of the span, clipped to it, in order, those without any
  // advice too, until it answers false. No lock is held: it may do what it likes, and each stretch
  // is as it was when its turn came.
  template <typename Visit>
  void for_each(PageSpan span, const Visit& visit) const {
    for (std::uint64_t page = span.first; page < span.end();) {
      Segment segment = at(page);
      // What came before may have changed and become part of this stretch; it has had its turn.
      segment.span = intersect(segment.span, {page, span.end() - page});
      if (!visit(segment)) return;
      page = segment.span.end();
    }
  }

  // Which of the block's pages are pinned.
  PageMask pinned(BlockIndex block) const EXCLUDES(lock_);

  // Whether there is no advice at all. Takes no lock: faults ask this first.
  bool empty() const { return empty_.load(std::memory_order_acquire); }

 private:
  using Starts = std::map<std::uint64_t, Advice>;

  static constexpr std::uint64_t last_end = std::numeric_limits<std::uint64_t>::max();

  // Calls edit(Advice&) for every stretch of the span, and merges neighbours that became equal.
  template <typename Edit>
  void edit(PageSpan span, const Edit& edit) REQUIRES(lock_);
  // Makes a stretch start at `page`, and returns it.
  Starts::iterator split(std::uint64_t page) REQUIRES(lock_);
  // Merges the stretch with the one before it if they are equal, and returns the next one.
  Starts::iterator merge_with_previous(Starts::iterator stretch) REQUIRES(lock_);

  mutable SharedMutex lock_{LockOrder::advice};
  // First page of a stretch -> its advice, up to the next one's first page. Without advice before
  // the first one; the last one has none. Neighbours are unequal.
  Starts starts_ GUARDED_BY(lock_);
  std::atomic<bool> empty_ = true;  // starts_ is empty; written under the lock, pairs with empty()
};

}  // namespace wherry::impl
