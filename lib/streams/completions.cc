#include "streams/completions.h"

#include <utility>

namespace wherry::impl {

// The descriptor is signalled and drained under the lock, so it is readable exactly while there are
// entries.
void Completions::add(Entry entry) {
  const LockGuard guard(lock_);
  if (closed_) return;
  if (entries_.empty()) signal_eventfd(fd_);
  entries_.push_back(std::move(entry));
}

std::vector<Completions::Entry> Completions::take() {
  const LockGuard guard(lock_);
  if (entries_.empty()) return {};
  drain_eventfd(fd_);
  return std::exchange(entries_, {});
}

void Completions::close() {
  std::vector<Entry> dropped;
  const LockGuard guard(lock_);
  closed_ = true;
  dropped.swap(entries_);
}

}  // namespace wherry::impl
