#include "migration/eviction_log.h"

#include <bit>

namespace wherry::impl {

EvictionLog::EvictionLog() : memory_(Mapping::zeroed(capacity * sizeof(Ring::Place))) {
  static_assert(std::has_single_bit(capacity));
  ring_.use(reinterpret_cast<Ring::Place*>(memory_.data()), std::countr_zero(capacity));
}

void EvictionLog::add(const Eviction& eviction) {
  if (!ring_.put(eviction)) dropped_.fetch_add(1, std::memory_order_relaxed);
}

std::size_t EvictionLog::take(std::span<Eviction> evictions) {
  const LockGuard guard(take_lock_);
  return ring_.take(evictions);
}

}  // namespace wherry::impl
