#include "migration/decision_log.h"

#include <algorithm>
#include <bit>

namespace wherry::impl {

DecisionLog::DecisionLog()
    : memory_(Mapping::zeroed(capacity * sizeof(Place))),
      ring_(reinterpret_cast<Place*>(memory_.data())) {}

void DecisionLog::add(const DecisionRecord& record) noexcept {
  const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  Place& place = ring_[number % capacity];
  std::uint64_t turn = place.turn.load(std::memory_order_relaxed);
  // If another thread is still writing this place, or has written a newer record there, this record
  // is lost.
  if (turn % 2 != 0 || turn > 2 * number ||
      !place.turn.compare_exchange_strong(turn, 2 * number + 1, std::memory_order_acquire,
                                          std::memory_order_relaxed))
    return;
  // A reader that sees one of the words also sees the odd turn, and so drops the record.
  std::atomic_thread_fence(std::memory_order_release);
  const auto bits = std::bit_cast<std::array<std::uint64_t, words>>(record);
  for (std::size_t i = 0; i < words; ++i) place.record[i].store(bits[i], std::memory_order_relaxed);
  place.turn.store(2 * number + 2, std::memory_order_release);
}

std::optional<DecisionRecord> DecisionLog::entry(std::uint64_t number) const {
  const Place& place = ring_[number % capacity];
  if (place.turn.load(std::memory_order_acquire) != 2 * number + 2) return std::nullopt;
  std::array<std::uint64_t, words> bits;
  for (std::size_t i = 0; i < words; ++i) bits[i] = place.record[i].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);  // pairs with the fence in add()
  if (place.turn.load(std::memory_order_relaxed) != 2 * number + 2) return std::nullopt;
  return std::bit_cast<DecisionRecord>(bits);
}

std::vector<DecisionRecord> DecisionLog::latest(BlockIndex block, unsigned page,
                                                std::size_t most) const {
  std::vector<DecisionRecord> found;
  const std::uint64_t end = next_.load(std::memory_order_acquire);
  const std::uint64_t begin = end - std::min<std::uint64_t>(end, capacity);
  for (std::uint64_t number = end; number-- > begin && found.size() < most;) {
    const auto record = entry(number);
    if (!record || record->block != block) continue;
    if (page < record->run.first || page >= record->run.end()) continue;
    if (record->cause == EventCause::release) break;
    found.push_back(*record);
  }
  return found;
}

}  // namespace wherry::impl
