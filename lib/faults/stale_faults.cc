#include "faults/stale_faults.h"

namespace wherry::impl {
namespace {

// A thread that a wake sends back to its access faults again sooner than that.
constexpr std::uint64_t soon_ns = 100'000'000;

}  // namespace

bool StaleFaults::came_back(const Fault& fault) {
  const Changes changes{audiences_.changes(), address_space_.frees()};
  const LockGuard guard(lock_);
  for (Suspect& suspect : suspects_) {
    if (suspect.processor != fault.processor || suspect.page != fault.page ||
        suspect.thread != fault.message.thread)
      continue;
    if (suspect.changes == changes) return fault.taken_ns >= suspect.answered_ns;
    const std::uint64_t now = clock_();
    suspect.rounds = now - suspect.answered_ns < soon_ns ? suspect.rounds + 1 : 0;
    if (suspect.rounds == rounds_max) return true;
    suspect.changes = changes;
    suspect.answered_ns = now;
    return false;
  }
  suspects_[next_] = {fault.processor, fault.page, fault.message.thread, clock_(), changes};
  next_ = (next_ + 1) % suspects_.size();
  return false;
}

}  // namespace wherry::impl
