#include "event_order.h"

#include <algorithm>

namespace wherry::report {

void EventOrder::add(std::span<const impl::TraceEvent> events) {
  waiting_.insert(waiting_.end(), events.begin(), events.end());
  // Sorting only when two windows are full sorts each event about twice.
  if (waiting_.size() >= 2 * window_) visit_first(waiting_.size() - window_);
}

void EventOrder::visit_first(std::size_t count) {
  std::ranges::stable_sort(waiting_, {}, &impl::TraceEvent::time_ns);
  const auto last = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
  std::for_each(waiting_.begin(), last, visit_);
  waiting_.erase(waiting_.begin(), last);
}

}  // namespace wherry::report
