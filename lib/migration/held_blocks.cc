#include "migration/held_blocks.h"

#include <algorithm>
#include <new>

namespace wherry::impl {
namespace {

constexpr std::uint64_t first_pause_ns = 1'000'000;
constexpr std::uint64_t pause_limit_ns = 1'000'000'000;

}  // namespace

std::uint64_t HeldBlocks::retry_at(BlockIndex block) const {
  if (count_.load(std::memory_order_relaxed) == 0) return 0;
  const LockGuard guard(lock_);
  const auto known = refusals_.find(block.value);
  return known == refusals_.end() ? 0 : known->second.retry_at_ns;
}

std::uint64_t HeldBlocks::next_retry(std::uint64_t now_ns) const {
  const LockGuard guard(lock_);
  std::uint64_t next = 0;
  for (const auto& [block, refusal] : refusals_)
    if (refusal.retry_at_ns > now_ns && (next == 0 || refusal.retry_at_ns < next))
      next = refusal.retry_at_ns;
  return next;
}

void HeldBlocks::refused(BlockIndex block, std::uint64_t now_ns) {
  const LockGuard guard(lock_);
  try {
    Refusal& refusal = refusals_[block.value];
    refusal.pause_ns =
        refusal.pause_ns == 0 ? first_pause_ns : std::min(2 * refusal.pause_ns, pause_limit_ns);
    refusal.retry_at_ns = now_ns + refusal.pause_ns;
    count_.store(refusals_.size(), std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    // Without a record the next fault on the block makes an attempt at once.
  }
}

void HeldBlocks::ended(BlockIndex block) {
  if (count_.load(std::memory_order_relaxed) == 0) return;
  const LockGuard guard(lock_);
  refusals_.erase(block.value);
  count_.store(refusals_.size(), std::memory_order_relaxed);
}

}  // namespace wherry::impl
