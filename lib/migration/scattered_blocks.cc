#include "migration/scattered_blocks.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "base/clock.h"

namespace wherry::impl {

void ScatteredBlocks::open() {
  const LockGuard guard(lock_);
  open_ = true;
}

void ScatteredBlocks::close() {
  {
    const LockGuard guard(lock_);
    open_ = false;
  }
  changed_.notify_all();
}

void ScatteredBlocks::note(const LockedBlock& block, std::uint64_t now_ns, int attempts) {
  if (block.state.is_noted_as_scattered) return;
  {
    const LockGuard guard(lock_);
    if (!open_) return;
    try {
      noted_.push_back({block.index, now_ns, attempts});
    } catch (const std::bad_alloc&) {
      return;  // the block keeps its small entries
    }
    block.state.is_noted_as_scattered = true;
    if (noted_.size() > 1) return;  // the consolidator wakes by itself for the first
  }
  changed_.notify_all();
}

std::optional<ScatteredBlocks::Noted> ScatteredBlocks::take(std::uint64_t earliest_ns) {
  const LockGuard guard(lock_);
  while (open_) {
    if (noted_.empty()) {
      changed_.wait(lock_);
      continue;
    }
    const std::uint64_t due_ns = std::max(noted_.front().at_ns + calm_ns, earliest_ns);
    const std::uint64_t now = now_ns();
    if (now >= due_ns) {
      const Noted noted = noted_.front();
      noted_.pop_front();
      return noted;
    }
    changed_.wait_for(lock_, std::chrono::nanoseconds(due_ns - now));
  }
  return std::nullopt;
}

}  // namespace wherry::impl
