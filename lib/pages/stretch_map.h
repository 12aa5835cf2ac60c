// A value for each page, stored as stretches of equal values. The default of every page is Value{}.
//
// The stretches cover all pages without gaps, and each is as long as possible. For example, an edit
// of [b, d) that adds y splits and extends these stretches:
//
//   | default | x               | default
//   0         a                 c
//
//   | default | x     | x and y | y       | default
//   0         a       b         c         d
//
// The memory for it is bounded by the number of stretches. Any thread may call any function.
#pragma once

#include <atomic>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>

#include "base/lock.h"
#include "base/page.h"

namespace wherry::impl {

template <typename Value>
class StretchMap {
 public:
  // A stretch of pages with equal values.
  struct Segment {
    PageSpan span;
    Value value;
  };

  // Calls edit(Value&) for each stretch of the span. Takes O(log n) plus the number of stretches in
  // the span. Throws std::bad_alloc, and has then changed nothing.
  template <typename Edit>
  void edit(PageSpan span, const Edit& edit) EXCLUDES(lock_) {
    if (span.empty()) return;
    const WriteGuard guard(lock_);
    edit_locked(span, edit);
  }
  // Sets the value of each page of the span, at the cost and with the exception of edit().
  void set(PageSpan span, const Value& value) EXCLUDES(lock_) {
    edit(span, [&](Value& old) { old = value; });
  }
  // Gives these pages the default value.
  void forget(PageSpan span) EXCLUDES(lock_) {
    if (!empty()) set(span, Value{});
  }

  // The longest stretch of equal values around the page. The last stretch ends at the highest page
  // number.
  Segment at(PageIndex page) const EXCLUDES(lock_) {
    if (empty()) return {all_before(last_end), {}};
    const BriefReadGuard guard(lock_);
    const auto next = starts_.upper_bound(page);
    const PageIndex end = next == starts_.end() ? last_end : next->first;
    if (next == starts_.begin()) return {all_before(end), {}};
    const auto& [first, value] = *std::prev(next);
    return {{first, end - first}, value};
  }

  // Calls visit(Segment) for each stretch of the span, clipped to it, in order, including stretches
  // with the default value, until visit returns false. No lock is held during visit(): it may call
  // any function, and each stretch is as it was when visit() was called for it.
  template <typename Visit>
  void for_each(PageSpan span, const Visit& visit) const {
    for (PageIndex page = span.first; page < span.end();) {
      Segment segment = at(page);
      // Pages that were visited before may have become part of this stretch; they are not visited
      // again.
      segment.span = intersect(segment.span, {page, span.end() - page});
      if (!visit(segment)) return;
      page = segment.span.end();
    }
  }

  // Whether every page has the default value. Takes no lock: each fault asks this first.
  bool empty() const { return empty_.load(std::memory_order_acquire); }

 private:
  using Starts = std::map<PageIndex, Value>;

  static constexpr PageIndex last_end{std::numeric_limits<std::uint64_t>::max()};

  static constexpr PageSpan all_before(PageIndex end) { return {{}, end.value}; }

  // Edits each stretch of the span, and merges neighbours that became equal.
  template <typename Edit>
  void edit_locked(PageSpan span, const Edit& edit) REQUIRES(lock_) {
    const auto first = split(span.first);
    typename Starts::iterator end;
    try {
      end = split(span.end());
    } catch (...) {
      merge_with_previous(first);
      throw;
    }
    for (auto stretch = first; stretch != end; ++stretch) edit(stretch->second);
    for (auto stretch = first; stretch != end;) stretch = merge_with_previous(stretch);
    merge_with_previous(end);
    empty_.store(starts_.empty(), std::memory_order_release);
  }
  // Makes a stretch start at `page`, and returns it.
  typename Starts::iterator split(PageIndex page) REQUIRES(lock_) {
    const auto next = starts_.lower_bound(page);
    if (next != starts_.end() && next->first == page) return next;
    const Value value = next == starts_.begin() ? Value{} : std::prev(next)->second;
    return starts_.emplace_hint(next, page, value);
  }
  // Merges the stretch with the one before it if they are equal, and returns the next one.
  typename Starts::iterator merge_with_previous(typename Starts::iterator stretch) REQUIRES(lock_) {
    const Value before = stretch == starts_.begin() ? Value{} : std::prev(stretch)->second;
    return stretch->second == before ? starts_.erase(stretch) : std::next(stretch);
  }

  mutable SharedMutex lock_{LockOrder::advice};
  // First page of a stretch -> its value, which applies up to the next entry. Pages before the
  // first entry have the default value, and so has the last entry. Neighbours are unequal.
  Starts starts_ GUARDED_BY(lock_);
  // Whether starts_ is empty. Written under lock_ with release; pairs with the acquire in empty().
  std::atomic<bool> empty_ = true;
};

}  // namespace wherry::impl
