#include "faults/watchers.h"

#include <bit>

#include "os/process/poll.h"

namespace wherry::impl {

Watchers::Watchers(std::size_t handlers, int waiting_max)
    : waiting_max_(waiting_max), watching_(static_cast<int>(handlers)) {
  kicks_.reserve(handlers);
  for (std::size_t i = 0; i < handlers; ++i) kicks_.push_back(make_eventfd());
}

void Watchers::tell_all() const {
  for (const Fd& kick : kicks_) signal_eventfd(kick);
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
