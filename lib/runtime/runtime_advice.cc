// The runtime's part in advice: what follows from what the program says of its memory.
#include "os/memory/numa.h"
#include "runtime/runtime.h"

namespace wherry::impl {

bool Runtime::is_managed(PageSpan pages) const {
  const auto allocation = address_space_.find(pages.offset());
  return allocation && allocation->owner.is_managed() &&
         intersect(allocation->pages(), pages) == pages;
}

bool Runtime::advise(PageSpan pages, const AdviceChange& change) {
  using Kind = AdviceChange::Kind;
  {
    const ReadGuard guard(advice_lock_);
    if (!is_managed(pages)) return false;
    advice_.change(pages, change);
  }
  record_advice(pages, change);
  // With one node there is nothing to choose.
  if (options_.topology.host_nodes.size() > 1 &&
      (change.kind == Kind::set_preferred || change.kind == Kind::unset_preferred)) {
    const bool on_node =
        change.kind == Kind::set_preferred && change.location.kind == Location::Kind::host_node;
    place_on_host(pages, on_node ? std::optional<int>(change.location.id) : std::nullopt);
  }
  effects_->apply(pages, change);
  return true;
}

void Runtime::forget_advice(PageSpan pages) {
  if (advice_.empty()) return;
  if (options_.topology.host_nodes.size() > 1) place_on_host(pages, std::nullopt);
  advice_.forget(pages);
}

void Runtime::place_on_host(PageSpan pages, std::optional<int> node) {
  MemoryPoolFile& pool = *pools_.front();
  // Advice is a hint: where the kernel refuses, pages lie where they would have lain without it.
  (void)pool.file().prefer_nodes(
      pages.offset(), pages.bytes(),
      node ? std::span<const int>(&*node, 1) : std::span<const int>(options_.topology.host_nodes));
}

}  // namespace wherry::impl
