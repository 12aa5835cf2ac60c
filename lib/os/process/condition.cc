#include "os/process/condition.h"

#include <limits>

#include "os/process/futex.h"

namespace wherry::impl {

void Condition::wait_for(Mutex& mutex, std::chrono::nanoseconds limit)
    WHERRY_TSA(no_thread_safety_analysis) {
  check_wait_without(mutex.order());
  // Both calls precede the unlock, so that no notification after it is missed. They pair with
  // notify_one() and notify_all().
  sleepers_.fetch_add(1);
  const std::uint32_t seen = changes_.load();
  mutex.unlock();
  futex_wait_ns(changes_, seen, limit);
  mutex.lock();
  sleepers_.fetch_sub(1);
}

void Condition::notify_one() {
  changes_.fetch_add(1);
  if (sleepers_.load() != 0) futex_wake(changes_, 1);
}

void Condition::notify_all() {
  changes_.fetch_add(1);
  if (sleepers_.load() != 0) futex_wake(changes_, std::numeric_limits<int>::max());
}

}  // namespace wherry::impl
