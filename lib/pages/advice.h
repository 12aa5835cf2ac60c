// The program's advice for its memory, per page, stored as stretches of equal advice. Only
// bookkeeping: other classes apply the advice to pages.
//
// The stretches cover all pages without gaps, and each is as long as possible. For example,
// change([b, d), preferred) splits and extends these stretches:
//
//   | none | read-mostly                            | none
//   0      a                                        c
//
//   | none | read-mostly | read-mostly + preferred  | preferred | none
//   0      a             b                          c           d
//
// The memory for it is bounded by the number of stretches. Any thread may call any function.
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
    host,       // any NUMA node of the host
    host_node,  // one NUMA node of the host
    // The host's NUMA node nearest to the calling thread. Only reported back to the program; memory
    // is treated as on the host.
    callers_node,
  };

  Kind kind = Kind::none;
  // The device's ordinal or the node's number; for callers_node the number that the program gave;
  // else 0.
  std::int32_t id = 0;

  static constexpr Location device(int ordinal) { return {Kind::device, ordinal}; }
  static constexpr Location host() { return {Kind::host, 0}; }
  static constexpr Location host_node(int node) { return {Kind::host_node, node}; }
  static constexpr Location callers_node(int said) { return {Kind::callers_node, said}; }

  constexpr bool is_none() const { return kind == Kind::none; }
  // The processor whose pool this is. Requires: not none.
  constexpr Processor processor() const {
    return kind == Kind::device ? Processor::device(id) : Processor::host();
  }
  constexpr bool operator==(const Location&) const = default;
};

// All advice for a page. The default is no advice.
struct Advice {
  bool read_mostly = false;
  // The program has unset read-mostly: no policy may duplicate the page on its own until
  // read-mostly is set again.
  bool no_duplication = false;
  Location preferred;
  ProcessorMask accessed_by = 0;
  Location last_prefetch;  // the destination of the program's last prefetch
  bool pinned = false;     // it stays in its pool, and has no copies

  bool operator==(const Advice&) const = default;
};

// One change of advice.
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
  Location location;  // for set_preferred, (un)set_accessed_by and prefetched

  void apply(Advice& advice) const;
};

class AdviceMap {
 public:
  // A stretch of pages with equal advice.
  struct Segment {
    PageSpan span;
    Advice advice;
  };

  // Applies the change to the span. Takes O(log n) plus the number of stretches in the span. Throws
  // std::bad_alloc, and has then changed nothing.
  void change(PageSpan span, const AdviceChange& change) EXCLUDES(lock_);
  // Removes all advice for these pages.
  void forget(PageSpan span) EXCLUDES(lock_);

  // The longest stretch of equal advice around the page. The last stretch ends at the highest page
  // number.
  Segment at(std::uint64_t page) const EXCLUDES(lock_);

  // Calls visit(Segment) for each stretch of the span, clipped to it, in order, including stretches
  // without advice, until visit returns false. No lock is held during visit(): it may call any
  // function, and each stretch is as it was when visit() was called for it.
  template <typename Visit>
  void for_each(PageSpan span, const Visit& visit) const {
    for (std::uint64_t page = span.first; page < span.end();) {
      Segment segment = at(page);
      // Pages that were visited before may have become part of this stretch; they are not visited
      // again.
      segment.span = intersect(segment.span, {page, span.end() - page});
      if (!visit(segment)) return;
      page = segment.span.end();
    }
  }

  // Which of the block's pages are pinned.
  PageMask pinned(BlockIndex block) const EXCLUDES(lock_);

  // Whether no page has any advice. Takes no lock: each fault asks this first.
  bool empty() const { return empty_.load(std::memory_order_acquire); }

 private:
  using Starts = std::map<std::uint64_t, Advice>;

  static constexpr std::uint64_t last_end = std::numeric_limits<std::uint64_t>::max();

  // Calls edit(Advice&) for each stretch of the span, and merges neighbours that became equal.
  template <typename Edit>
  void edit(PageSpan span, const Edit& edit) REQUIRES(lock_);
  // Makes a stretch start at `page`, and returns it.
  Starts::iterator split(std::uint64_t page) REQUIRES(lock_);
  // Merges the stretch with the one before it if they are equal, and returns the next one.
  Starts::iterator merge_with_previous(Starts::iterator stretch) REQUIRES(lock_);

  mutable SharedMutex lock_{LockOrder::advice};
  // First page of a stretch -> its advice, which applies up to the next entry. Pages before the
  // first entry have no advice; the last entry is without advice. Neighbours are unequal.
  Starts starts_ GUARDED_BY(lock_);
  // True: starts_ is empty. Written under lock_ with release; pairs with the acquire in empty().
  std::atomic<bool> empty_ = true;
};

}  // namespace wherry::impl
