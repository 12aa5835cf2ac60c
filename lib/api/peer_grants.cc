#include "api/peer_grants.h"

#include <algorithm>

namespace wherry::impl {

bool PeerGrants::enable(const Context& from, const Context& to) {
  const LockGuard guard(lock_);
  for (const Grant& grant : grants_)
    if (grant.from == from.handle && grant.to == to.handle) return false;
  grants_.push_back({from.handle, to.handle, from.device.ordinal, to.device.ordinal});
  runtime_.admit(Audiences::of_device(Processor::device(to.device.ordinal)), from.device.ordinal);
  return true;
}

template <typename Predicate>
std::size_t PeerGrants::take(const Predicate& predicate) {
  const auto first = std::stable_partition(grants_.begin(), grants_.end(),
                                           [&](const Grant& grant) { return !predicate(grant); });
  const std::vector<Grant> taken(first, grants_.end());
  grants_.erase(first, grants_.end());
  for (const Grant& gone : taken) {
    const bool others = std::ranges::any_of(
        grants_, [&](const Grant& grant) { return grant.by == gone.by && grant.of == gone.of; });
    if (!others) runtime_.exclude(Audiences::of_device(Processor::device(gone.of)), gone.by);
  }
  return taken.size();
}

bool PeerGrants::disable(CUcontext from, CUcontext to) {
  const LockGuard guard(lock_);
  return take([&](const Grant& grant) { return grant.from == from && grant.to == to; }) != 0;
}

void PeerGrants::end(CUcontext context) {
  const LockGuard guard(lock_);
  take([&](const Grant& grant) { return grant.from == context || grant.to == context; });
}

}  // namespace wherry::impl
