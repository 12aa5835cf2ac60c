// One recording of an event: a moment in a stream, at which all earlier work has finished. The
// engine of that stream calls finish(). Any thread may query it, and the engines of streams that
// wait for it are notified. Any thread may call.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "streams/completions.h"
#include "streams/stream_order.h"

namespace wherry::impl {

class Recording {
 public:
  struct Outcome {
    WorkStatus status = WorkStatus::ok;  // not ok: the earlier work was dropped
    std::chrono::steady_clock::time_point time;
  };

  // The moment, and the moments of other streams before it. The engine that records sets them,
  // before another thread sees the recording.
  StreamOrder::Moment moment;
  std::shared_ptr<const StreamOrder> order;

  // Returns nullopt if the earlier work has not finished.
  std::optional<Outcome> outcome() const EXCLUDES(lock_);
  // Sets the outcome, with the current time.
  void finish(WorkStatus status) EXCLUDES(lock_);
  // Adds `entry`, with the status of the outcome, to `completions` when the recording is finished;
  // at once if it is finished already.
  void tell(std::shared_ptr<Completions> completions, Completions::Entry entry) EXCLUDES(lock_);

 private:
  using Waiter = std::pair<std::shared_ptr<Completions>, Completions::Entry>;

  mutable Mutex lock_{LockOrder::recording};
  std::optional<Outcome> outcome_ GUARDED_BY(lock_);
  std::vector<Waiter> waiters_ GUARDED_BY(lock_);  // to be notified by finish()
};

}  // namespace wherry::impl
