#include "runtime/program_advice.h"

#include <optional>
#include <span>

#include "base/signal_blocking.h"
#include "runtime/memory_events.h"

namespace wherry::impl {

bool ProgramAdvice::is_managed(PageSpan pages) const {
  const auto allocation = parts_.address_space.find(pages.offset());
  return allocation && allocation->owner.is_managed() &&
         intersect(allocation->pages(), pages) == pages;
}

bool ProgramAdvice::advise(PageSpan pages, const AdviceChange& change) {
  bool changes_views = false;
  {
    // Advice about few pages takes a few locks for a moment. Blocking signals for each of them
    // would take most of the time.
    std::optional<BlockedSignals> once;
    if (pages.count <= pages_per_block) once.emplace();
    {
      const ReadGuard guard(lock);
      if (!is_managed(pages)) return false;
      parts_.map.change(pages, change);
    }
    changes_views = begin_effects(pages, change);
  }
  if (changes_views) parts_.effects.wait_for_views();
  return true;
}

bool ProgramAdvice::begin_effects(PageSpan pages, const AdviceChange& change) {
  using Kind = AdviceChange::Kind;
  record_advice(parts_.layout, pages, change);
  // With one node there is no choice.
  if (parts_.topology.host_nodes.size() > 1 &&
      (change.kind == Kind::set_preferred || change.kind == Kind::unset_preferred)) {
    const bool on_node =
        change.kind == Kind::set_preferred && change.location.kind == Location::Kind::host_node;
    place_on_host(pages, on_node ? std::optional<int>(change.location.id) : std::nullopt);
  }
  return parts_.effects.apply(pages, change);
}

bool ProgramAdvice::note_prefetch(PageSpan pages, Location destination) {
  const ReadGuard guard(lock);
  if (!is_managed(pages)) return false;
  last_prefetches_.set(pages, destination);
  record_prefetch(parts_.layout, pages, destination);
  return true;
}

void ProgramAdvice::forget(PageSpan pages) {
  last_prefetches_.forget(pages);
  if (parts_.map.empty()) return;
  if (parts_.topology.host_nodes.size() > 1) place_on_host(pages, std::nullopt);
  parts_.map.forget(pages);
}

void ProgramAdvice::place_on_host(PageSpan pages, std::optional<int> node) {
  // Advice is a hint: if Linux refuses, the pages lie where they would lie without it.
  (void)parts_.pools.host().file().prefer_nodes(
      pages,
      node ? std::span<const int>(&*node, 1) : std::span<const int>(parts_.topology.host_nodes));
}

}  // namespace wherry::impl
