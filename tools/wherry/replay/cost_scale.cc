#include "replay/cost_scale.h"

#include <algorithm>
#include <vector>

#include "base/page.h"

namespace wherry::replay {
namespace {

using impl::EventKind;
using impl::EventRecord;

constexpr std::size_t samples_min = 32;
// What happens between a fault's message and its pages' move is little.
constexpr std::size_t looked_at_max = 64;

// What a fault took from when its pages began to move, which leaves out for whom it waited; 0: they did not.
double moving_ns(const std::vector<EventRecord>& events, std::size_t index, unsigned& pages) {
  const EventRecord& fault = events[index];
  const std::uint64_t end_ns = fault.time_ns + fault.duration_ns;
  const std::size_t last = std::min(events.size(), index + looked_at_max);
  for (std::size_t i = index + 1; i < last && events[i].time_ns < end_ns; ++i) {
    const EventRecord& move = events[i];
    if (move.kind != EventKind::migration || move.cause != impl::EventCause::fault ||
        move.destination != fault.destination || fault.address - move.address >= move.bytes)
      continue;
    pages = static_cast<unsigned>(
        std::min<std::uint64_t>(move.bytes / impl::page_size, impl::pages_per_block));
    return static_cast<double>(end_ns - move.time_ns);
  }
  return 0;
}

}  // namespace

double cost_scale(const impl::Trace& trace, const CostModel& costs) {
  std::vector<double> scales;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const EventRecord& event = trace.events[i];
    if (event.kind != EventKind::fault) continue;
    unsigned pages = 0;
    const double took_ns = moving_ns(trace.events, i, pages);
    const double cost_ns =
        (event.destination == 0 ? costs.migrate_to_host : costs.migrate_to_device).of(pages);
    if (took_ns > 0 && cost_ns > 0) scales.push_back(took_ns / cost_ns);
  }
  if (scales.size() < samples_min) return 1;
  const auto middle = scales.begin() + static_cast<std::ptrdiff_t>(scales.size() / 2);
  std::ranges::nth_element(scales, middle);
  return *middle;
}

CostModel scaled(const CostModel& costs, double scale) {
  CostModel result = costs;
  for (OperationCost* const cost :
       {&result.populate_host, &result.populate_device, &result.migrate_to_host,
        &result.migrate_to_device, &result.duplicate, &result.remote_map}) {
    cost->fixed_ns *= scale;
    cost->page_ns *= scale;
  }
  for (double* const cost :
       {&result.minor_ns, &result.collapse_ns, &result.evict_page_ns, &result.prefetch_page_ns,
        &result.round_trip_host_ns, &result.round_trip_device_ns, &result.read_local_page_ns,
        &result.read_remote_page_ns})
    *cost *= scale;
  return result;
}

}  // namespace wherry::replay
