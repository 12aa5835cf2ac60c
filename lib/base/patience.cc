#include "base/patience.h"

#include <atomic>

namespace wherry::impl {
namespace {

std::atomic<bool> applied_now{true};

}  // namespace

void apply_wait_limits(bool applied) {
  applied_now.store(applied, std::memory_order_relaxed);
}

bool wait_limits_applied() {
  return applied_now.load(std::memory_order_relaxed);
}

}  // namespace wherry::impl
