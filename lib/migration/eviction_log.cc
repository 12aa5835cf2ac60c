#include "migration/eviction_log.h"

namespace wherry::impl {

EvictionLog::EvictionLog()
    : memory_(Mapping::zeroed(capacity * sizeof(Place))),
      ring_(reinterpret_cast<Place*>(memory_.data())) {}

void EvictionLog::add(const Eviction& eviction) {
  std::uint64_t entry = next_.load(std::memory_order_relaxed);
  for (;;) {
    Place& place = place_of(entry);
    // Acquire pairs with the release in take(): the place has been read.
    const std::uint64_t turn = place.turn.load(std::memory_order_acquire);
    if (turn < free_turn(entry)) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    if (turn > free_turn(entry)) {
      entry = next_.load(std::memory_order_relaxed);
    } else if (next_.compare_exchange_weak(entry, entry + 1, std::memory_order_relaxed)) {
      place.eviction = eviction;
      place.turn.store(turn + 1, std::memory_order_release);  // pairs with the acquire in take()
      return;
    }
  }
}

std::size_t EvictionLog::take(std::span<Eviction> evictions) {
  const LockGuard guard(take_lock_);
  for (std::size_t i = 0; i < evictions.size(); ++i) {
    Place& place = place_of(taken_);
    const std::uint64_t turn = place.turn.load(std::memory_order_acquire);
    if (turn != free_turn(taken_) + 1) return i;
    evictions[i] = place.eviction;
    place.turn.store(turn + 1, std::memory_order_release);
    ++taken_;
  }
  return evictions.size();
}

}  // namespace wherry::impl
