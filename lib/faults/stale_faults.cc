#include "faults/stale_faults.h"

namespace wherry::impl {

bool StaleFaults::came_back(const Fault& fault) {
  const Changes changes{audiences_.changes(), address_space_.frees()};
  const LockGuard guard(lock_);
  for (Suspect& suspect : suspects_) {
    if (suspect.processor != fault.processor || suspect.page != fault.page ||
        suspect.thread != fault.message.thread)
      continue;
    if (suspect.changes == changes) return fault.taken_ns >= suspect.answered_ns;
    suspect.changes = changes;
    suspect.answered_ns = clock_();
    return false;
  }
  suspects_[next_] = {fault.processor, fault.page, fault.message.thread, clock_(), changes};
  next_ = (next_ + 1) % suspects_.size();
  return false;
}

}  // namespace wherry::impl
