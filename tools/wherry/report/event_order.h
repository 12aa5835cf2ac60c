// Puts the events of a trace in order of time without keeping all of them: it sorts a window of
// them. Threads write to a trace in turns, so an event is at most some thousand places away from
// its own. An event that is further away, such as one that lasted for most of the run, comes late.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "trace/event.h"

namespace wherry::report {

class EventOrder {
 public:
  using Visit = std::function<void(const impl::TraceEvent&)>;

  // `window`: an event that is at most this many places away from its own is in order.
  EventOrder(std::size_t window, Visit visit) : window_(window), visit_(std::move(visit)) {}

  void add(std::span<const impl::TraceEvent> events);
  // Visits the events that wait.
  void end() { visit_first(waiting_.size()); }

 private:
  void visit_first(std::size_t count);

  const std::size_t window_;
  const Visit visit_;
  std::vector<impl::TraceEvent> waiting_;
};

}  // namespace wherry::report
