#include "objects/peer_grants.h"

#include <algorithm>

namespace wherry::impl {

PeerGrants::Answer PeerGrants::enable(const Context& from, const Context& to) {
  const LockGuard guard(lock_);
  // A thread that destroys a context marks it before it calls end(), so no grant is left behind.
  for (const Context* one : {&from, &to})
    if (one->device.engine.status(*one->work) == WorkStatus::context_destroyed)
      return Answer::destroyed;
  for (const Grant& grant : grants_)
    if (grant.from == from.work && grant.to == to.work) return Answer::enabled_before;
  grants_.push_back({from.work, to.work, from.device.ordinal, to.device.ordinal});
  runtime_.audiences().admit(Audiences::of_device(Processor::device(to.device.ordinal)),
                             from.device.ordinal);
  return Answer::enabled;
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
    if (!others)
      runtime_.audiences().exclude(Audiences::of_device(Processor::device(gone.of)), gone.by);
  }
  return taken.size();
}

bool PeerGrants::disable(const Context& from, const Context& to) {
  const LockGuard guard(lock_);
  return take([&](const Grant& grant) { return grant.from == from.work && grant.to == to.work; }) !=
         0;
}

void PeerGrants::end(const Context& context) {
  const LockGuard guard(lock_);
  take([&](const Grant& grant) { return grant.from == context.work || grant.to == context.work; });
}

}  // namespace wherry::impl
