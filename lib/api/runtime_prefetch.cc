// The runtime's part in prefetching.
#include "api/runtime.h"

namespace wherry::impl {

bool Runtime::note_prefetch(PageSpan pages, Location said) {
  const ReadGuard guard(advice_lock_);
  const auto allocation = address_space_.find(pages.offset());
  if (!allocation || intersect(allocation->pages(), pages) != pages) return false;
  advice_.change(pages, {AdviceChange::Kind::prefetched, said});
  return true;
}

void Runtime::prefetch(const PrefetchRequest&, std::function<void()> done) {
  // Nothing moves ahead of its use yet: the pages come with the faults.
  prefetch_thread_.post(std::move(done));
}

}  // namespace wherry::impl
