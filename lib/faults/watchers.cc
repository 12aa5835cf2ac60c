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

void Watchers::begin_answer() {
  if (watching_.fetch_sub(1) == 1) set_guard();
}

// If the guard is set already, look() clears `guard_is_set_` before it reads `watching_`, so it
// sees the caller's change of `watching_`.
void Watchers::set_guard() {
  const bool can_rest = kicks_.size() > static_cast<std::size_t>(waiting_max_);
  if (can_rest && !guard_is_set_.exchange(true)) set_timer(guard_, now_ns() + guard_ns);
}

void Watchers::look() {
  guard_is_set_.store(false);
  if (watching_.load() > 0) return;
  call_up_one();
  // Has the guard look again until a handler watches: the one called up may be busy with postponed
  // faults.
  set_guard();
}

// The bit is set before the handler stops counting as a watcher: a thread that finds no watcher
// finds this one resting.
bool Watchers::try_rest(std::size_t handler) {
  resting_.fetch_or(bit(handler));
  int watching = watching_.load();
  while (watching > waiting_max_)
    if (watching_.compare_exchange_weak(watching, watching - 1)) return true;
  if ((resting_.fetch_and(~bit(handler)) & bit(handler)) == 0) called_up_.fetch_sub(1);
  return false;
}

bool Watchers::is_called_up(std::size_t handler) {
  if ((resting_.load() & bit(handler)) != 0) return false;
  watching_.fetch_add(1);
  called_up_.fetch_sub(1);
  return true;
}

void Watchers::share_work() {
  if (watching_.load() <= 1 && called_up_.load() <= 0) call_up_one();
}

void Watchers::call_up_one() {
  std::uint64_t resting = resting_.load();
  do {
    if (resting == 0) return;
  } while (!resting_.compare_exchange_weak(resting, resting & (resting - 1)));
  called_up_.fetch_add(1);
  signal_eventfd(kicks_[static_cast<std::size_t>(std::countr_zero(resting))]);
}

}  // namespace wherry::impl
