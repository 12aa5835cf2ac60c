#include "pages/advice.h"

namespace wherry::impl {

void AdviceChange::apply(Advice& advice) const {
  switch (kind) {
    case Kind::set_read_mostly:
      advice.read_mostly = true;
      return;
    case Kind::unset_read_mostly:
      advice.read_mostly = false;
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
    case Kind::pinned:
      advice.pinned = true;
      return;
    case Kind::unpinned:
      advice.pinned = false;
      return;
  }
}

void AdviceMap::change(PageSpan span, const AdviceChange& change) {
  // Programs repeat advice. So first look whether the change has an effect: an edit makes system
  // calls, looking makes none.
  bool has_effect = false;
  for_each(span, [&](const Segment& segment) {
    Advice after = segment.value;
    change.apply(after);
    has_effect = after != segment.value;
    return !has_effect;
  });
  if (!has_effect) return;
  edit(span, [&](Advice& advice) { change.apply(advice); });
}

PageMask AdviceMap::pinned(BlockIndex block) const {
  PageMask mask;
  if (empty()) return mask;
  for_each(block_span(block), [&](const Segment& segment) {
    if (segment.value.pinned) mask |= PageMask::of(run_in_block(block, segment.span));
    return true;
  });
  return mask;
}

}  // namespace wherry::impl
