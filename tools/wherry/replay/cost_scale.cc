#include "replay/cost_scale.h"

#include <algorithm>
#include <vector>

namespace wherry::replay {
namespace {

constexpr std::size_t samples_min = 32;

}  // namespace

double cost_scale(const Timeline& timeline, const CostModel& costs) {
  std::vector<double> scales;
  for (const RecordedAnswer& answer : timeline.answers) {
    const Arrivals& arrivals = answer.arrivals;
    if (arrivals.kind != impl::EventKind::migration) continue;
    const double cost_ns =
        (arrivals.destination == 0 ? costs.migrate_to_host : costs.migrate_to_device)
            .of(arrivals.pages);
    if (cost_ns > 0) scales.push_back(answer.ns / cost_ns);
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
