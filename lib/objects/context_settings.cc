#include "objects/context_settings.h"

#include "streams/stream.h"

namespace wherry::impl {

bool are_context_flags(unsigned flags) {
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) == 0 &&
         (schedule == CU_CTX_SCHED_AUTO || schedule == CU_CTX_SCHED_SPIN ||
          schedule == CU_CTX_SCHED_YIELD || schedule == CU_CTX_SCHED_BLOCKING_SYNC);
}

std::uint64_t wait_spin_of(unsigned flags) {
  // How long CU_CTX_SCHED_SPIN looks before the thread sleeps for a moment and looks again.
  constexpr std::uint64_t long_spin_ns = 100'000'000;
  switch (flags & CU_CTX_SCHED_MASK) {
    case CU_CTX_SCHED_SPIN:
      return long_spin_ns;
    case CU_CTX_SCHED_BLOCKING_SYNC:
      return 0;
    default:
      return usual_spin_ns;
  }
}

std::optional<std::size_t> ContextSettings::limit(CUlimit which) const {
  const auto index = static_cast<std::size_t>(which);
  if (index >= limits_.size()) return std::nullopt;
  return limits_[index].load();
}

bool ContextSettings::set_limit(CUlimit which, std::size_t value) {
  const auto index = static_cast<std::size_t>(which);
  if (index >= limits_.size()) return false;
  limits_[index] = value;
  return true;
}

}  // namespace wherry::impl
