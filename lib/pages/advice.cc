#include "pages/advice.h"

#include <iterator>

namespace wherry::impl {

void AdviceChange::apply(Advice& advice) const {
  switch (kind) {
    case Kind::set_read_mostly:
      advice.read_mostly = true;
      advice.no_duplication = false;
      return;
    case Kind::unset_read_mostly:
      advice.read_mostly = false;
      advice.no_duplication = true;
      return;
    case Kind::set_preferred:
      advice.preferred = location;
      return;
    case Kind::unset_preferred:
      advice.preferred = {};
      return;
    case Kind::set_accessed_by:
      advice.accessed_by |= location.processor().bit();
      return;
    case Kind::unset_accessed_by:
      advice.accessed_by &= ~location.processor().bit();
      return;
    case Kind::prefetched:
      advice.last_prefetch = location;
      return;
    case Kind::pinned:
      advice.pinned = true;
      return;
    case Kind::unpinned:
      advice.pinned = false;
      return;
  }
}

AdviceMap::Starts::iterator AdviceMap::split(std::uint64_t page) {
  const auto next = starts_.lower_bound(page);
  if (next != starts_.end() && next->first == page) return next;
  const Advice advice = next == starts_.begin() ? Advice{} : std::prev(next)->second;
  return starts_.emplace_hint(next, page, advice);
}

AdviceMap::Starts::iterator AdviceMap::merge_with_previous(Starts::iterator stretch) {
  const Advice before = stretch == starts_.begin() ? Advice{} : std::prev(stretch)->second;
  return stretch->second == before ? starts_.erase(stretch) : std::next(stretch);
}

template <typename Edit>
void AdviceMap::edit(PageSpan span, const Edit& edit) {
  const auto first = split(span.first);
  Starts::iterator end;
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

void AdviceMap::change(PageSpan span, const AdviceChange& change) {
  if (span.empty()) return;
  const WriteGuard guard(lock_);
  edit(span, [&](Advice& advice) { change.apply(advice); });
}

void AdviceMap::forget(PageSpan span) {
  if (span.empty() || empty()) return;
  const WriteGuard guard(lock_);
  edit(span, [](Advice& advice) { advice = {}; });
}

PageMask AdviceMap::pinned(BlockIndex block) const {
  PageMask mask;
  if (empty()) return mask;
  for_each(block_span(block), [&](const Segment& segment) {
    if (segment.advice.pinned) mask |= PageMask::of(run_in_block(block, segment.span));
    return true;
  });
  return mask;
}

AdviceMap::Segment AdviceMap::at(std::uint64_t page) const {
  if (empty()) return {{0, last_end}, {}};
  const ReadGuard guard(lock_);
  const auto next = starts_.upper_bound(page);
  const std::uint64_t end = next == starts_.end() ? last_end : next->first;
  if (next == starts_.begin()) return {{0, end}, {}};
  const auto& [first, advice] = *std::prev(next);
  return {{first, end - first}, advice};
}

}  // namespace wherry::impl
