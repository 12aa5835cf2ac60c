#include "memory_use.h"

namespace wherry::report {

using impl::EventCause;
using impl::EventKind;
using impl::TraceEvent;

namespace {

// A fault that is at most this far after the last one of its thread belongs to the same sweep.
constexpr std::uint64_t step_max = std::uint64_t{2} << 20;

bool is_because_of_an_access(EventCause cause) {
  return cause == EventCause::fault || cause == EventCause::speculative_prefetch ||
         cause == EventCause::thrash_pin || cause == EventCause::sample;
}

std::size_t index_of(std::int8_t processor) {
  return static_cast<std::size_t>(processor);
}

}  // namespace

std::uint64_t MemoryUse::faults() const {
  std::uint64_t sum = 0;
  for (const ProcessorUse& use : by) sum += use.faults();
  return sum;
}

std::uint64_t MemoryUse::fault_ns() const {
  std::uint64_t sum = 0;
  for (const ProcessorUse& use : by) sum += use.fault_ns;
  return sum;
}

void MemoryUses::add(const TraceEvent& event, std::string_view name, PageState place) {
  if (use_ == nullptr || name != name_) {
    auto found = uses_.find(name);
    if (found == uses_.end()) found = uses_.emplace(name, MemoryUse{}).first;
    name_ = found->first;
    use_ = &found->second;
  }
  switch (event.kind) {
    case EventKind::fault:
      if (event.destination >= 0) add_fault(event, place);
      return;
    case EventKind::migration:
      if (event.source >= 0 && event.destination >= 0) add_migration(event);
      return;
    case EventKind::duplicate:
      use_->copied_pages += event.bytes / page_bytes_;
      return;
    case EventKind::thrashing:
      ++use_->thrashings;
      return;
    case EventKind::throttle_end:
      use_->throttled_ns += event.duration_ns;
      return;
    case EventKind::held:
      ++use_->holds;
      use_->held_pages += event.bytes / page_bytes_;
      return;
    case EventKind::advice:
      if (event.detail < impl::advice_details) use_->advised |= 1u << event.detail;
      return;
    default:
      return;
  }
}

void MemoryUses::add_new_page(const TraceEvent& event) {
  if (use_ != nullptr && event.destination >= 0) ++use_->by[index_of(event.destination)].came_pages;
}

void MemoryUses::add_fault(const TraceEvent& event, PageState place) {
  ProcessorUse& by = use_->by[index_of(event.destination)];
  if (place.places == 0)
    ++by.first_touches;
  else
    ++(event.access == impl::EventAccess::write ? by.writes : by.reads);
  by.fault_ns += event.duration_ns;
  Streams& streams = streams_[{use_, event.destination}];
  std::uint64_t& last = streams[event.thread % streams.size()];
  if (last != 0 && event.address > last && event.address - last <= step_max) ++by.in_order;
  last = event.address;
}

void MemoryUses::add_migration(const TraceEvent& event) {
  const std::size_t from = index_of(event.source), to = index_of(event.destination);
  const std::uint64_t pages = event.bytes / page_bytes_;
  use_->all_moved_pages += pages;
  if (event.cause == EventCause::eviction) use_->by[from].evicted_pages += pages;
  if (event.cause == EventCause::prefetch) use_->by[to].prefetched_pages += pages;
  if (is_because_of_an_access(event.cause)) use_->moved_pages[from][to] += pages;
}

}  // namespace wherry::report
