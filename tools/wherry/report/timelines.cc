#include "timelines.h"

#include <algorithm>

namespace wherry::report {

using impl::EventKind;
using impl::TraceEvent;

Timelines::Timelines(const TimeBins& bins) : bins_(bins), copied_(bins.count) {
  for (auto* const of_processors : {&faults_, &busy_}) of_processors->fill(Timeline(bins.count));
  moved_.fill(Timeline(bins.count));
}

void Timelines::add(const TraceEvent& event, std::string_view label) {
  const std::size_t bin = bins_.bin_of(event.time_ns);
  switch (event.kind) {
    case EventKind::fault:
      if (event.destination >= 0) ++faults_[static_cast<std::size_t>(event.destination)][bin];
      return;
    case EventKind::migration:
      moved_[static_cast<std::size_t>(event.cause)][bin] += static_cast<double>(event.bytes);
      return;
    case EventKind::duplicate:
      copied_[bin] += static_cast<double>(event.bytes);
      return;
    case EventKind::launch_begin:
      if (event.destination >= 0) begin_launch(event, label);
      return;
    case EventKind::launch_end:
      if (const auto launch = running_.find({event.destination, event.value});
          launch != running_.end())
        end_launch(launch, event.time_ns);
      return;
    default:
      return;
  }
}

void Timelines::end(std::uint64_t end_ns) {
  while (!running_.empty()) end_launch(running_.begin(), end_ns);
}

void Timelines::begin_launch(const TraceEvent& event, std::string_view kernel) {
  running_[{event.destination, event.value}] = {event.time_ns,
                                                std::string(kernel.empty() ? "kernel" : kernel)};
}

void Timelines::end_launch(std::map<LaunchId, Launch>::iterator launch, std::uint64_t time_ns) {
  const auto processor = static_cast<std::size_t>(launch->first.first);
  const Launch& begun = launch->second;
  KernelTimes& kernel = kernels_[begun.kernel];
  ++kernel.launches;
  if (time_ns > begun.begin_ns) kernel.time_ns += time_ns - begun.begin_ns;
  std::uint64_t& until = busy_until_ns_[processor];
  bins_.for_parts(std::max(begun.begin_ns, until), time_ns, [&](std::size_t bin, std::uint64_t ns) {
    busy_[processor][bin] += static_cast<double>(ns);
  });
  until = std::max(until, time_ns);
  running_.erase(launch);
}

}  // namespace wherry::report
