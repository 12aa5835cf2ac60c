// The runtime's part in prefetching.
#include "runtime/runtime.h"

namespace wherry::impl {

bool Runtime::note_prefetch(PageSpan pages, Location said) {
  const ReadGuard guard(advice_lock_);
  if (!is_managed(pages)) return false;
  const AdviceChange change{AdviceChange::Kind::prefetched, said};
  advice_.change(pages, change);
  record_advice(pages, change);
  return true;
}

void Runtime::prefetch(const PrefetchRequest& request, std::function<void()> done) {
  prefetcher_->submit(request, std::move(done));
}

}  // namespace wherry::impl
