#include "streams/recording.h"

namespace wherry::impl {

std::optional<Recording::Outcome> Recording::outcome() const {
  const LockGuard guard(lock_);
  return outcome_;
}

void Recording::finish(WorkStatus status) {
  const auto now = std::chrono::steady_clock::now();
  std::vector<Waiter> waiters;
  {
    const LockGuard guard(lock_);
    outcome_ = {status, now};
    waiters.swap(waiters_);
  }
  for (auto& [completions, entry] : waiters) {
    entry.status = status;
    completions->add(std::move(entry));
  }
}

void Recording::tell(std::shared_ptr<Completions> completions, Completions::Entry entry) {
  {
    const LockGuard guard(lock_);
    if (!outcome_) {
      waiters_.emplace_back(std::move(completions), std::move(entry));
      return;
    }
    entry.status = outcome_->status;
  }
  completions->add(std::move(entry));
}

}  // namespace wherry::impl
