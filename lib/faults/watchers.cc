#include "faults/watchers.h"

#include <bit>

#include "base/clock.h"
#include "os/process/poll.h"

namespace wherry::impl {

Watchers::Watchers(std::size_t handlers, int waiting_max)
    : waiting_max_(waiting_max), guard_(make_timer()), watching_(static_cast<int>(handlers)) {
  kicks_.reserve(handlers);
  for (std::size_t i = 0; i < handlers; ++i) kicks_.push_back(make_eventfd());
}

void Watchers::tell_all() const {
  for (const Fd& kick : kicks_) signal_eventfd(kick);
  set_timer(guard_, now_ns());
}

// The guard expires after `watching_` was changed, so its thread sees the change. If the timer
// expires later than now, that holds for the present setting.
void Watchers::begin_answer() {
  if (watching_.fetch_sub(1) > 1 || resting_.load() == 0) return;
  const std::uint64_t now = now_ns();
  std::uint64_t end = guard_end_ns_.load();
  if (end > now || !guard_end_ns_.compare_exchange_strong(end, now + guard_ns)) return;
  set_timer(guard_, now + guard_ns);
}

bool Watchers::try_rest(std::size_t handler) {
  int watching = watching_.load();
  do {
    if (watching <= waiting_max_) return false;
  } while (!watching_.compare_exchange_weak(watching, watching - 1));
  resting_.fetch_or(bit(handler));
  return true;
}

void Watchers::call_up_beside(int watching) {
  if (watching_.load() > watching) return;
  std::uint64_t resting = resting_.load();
  do {
    if (resting == 0) return;
  } while (!resting_.compare_exchange_weak(resting, resting & (resting - 1)));
  watching_.fetch_add(1);
  signal_eventfd(kicks_[static_cast<std::size_t>(std::countr_zero(resting))]);
}

}  // namespace wherry::impl
