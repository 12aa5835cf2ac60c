// One recording of an event: a moment in a stream, when the work before it has finished. The engine
// of that stream says when; everybody may ask, and the engines of streams that wait for it are
// told. Any thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "streams/completions.h"

namespace wherry::impl {

class Recording {
 public:
  struct Outcome {
    WorkStatus status = WorkStatus::ok;  // else the work before it was thrown away
    std::chrono::steady_clock::time_point time;
  };

  // Nothing: the work before it has not finished.
  std::optional<Outcome> outcome() const EXCLUDES(lock_);
  // The moment is now.
  void finish(WorkStatus status) EXCLUDES(lock_);
  // Adds `entry`, with the status that it then has, when the moment comes, or at once if it has
  // been.
  void tell(std::shared_ptr<Completions> completions, Completions::Entry entry) EXCLUDES(lock_);

 private:
  using Waiter = std::pair<std::shared_ptr<Completions>, Completions::Entry>;

  mutable Mutex lock_{LockOrder::recording};
  std::optional<Outcome> outcome_ GUARDED_BY(lock_);
  std::vector<Waiter> waiters_ GUARDED_BY(lock_);  // until then
};

}  // namespace wherry::impl
