#include "trace_labels.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

namespace wherry::tool {
namespace {

using impl::EventKind;
using impl::TraceEvent;
using impl::TraceName;

// "scale" for "scale (./program+0x1234)"; the place itself if there is no name.
std::string short_name(const std::string& code) {
  const std::size_t place = code.rfind(" (");
  return place == std::string::npos ? code : code.substr(0, place);
}

// The end of the range, limited to the last address.
std::uint64_t end_of(std::uint64_t start, std::uint64_t bytes) {
  return start + bytes < start ? UINT64_MAX : start + bytes;
}

}  // namespace

std::string processor_name(int index) {
  if (index < 0) return {};
  return index == 0 ? "host" : fmt::format("device {}", index - 1);
}

TraceLabels::TraceLabels(const Trace& trace) {
  for (const TraceName& name : trace.names) {
    switch (name.kind) {
      case TraceName::Kind::range:
        names_.push_back(&name);
        break;
      case TraceName::Kind::kernel:
        kernels_[name.address] = short_name(name.name);
        break;
      case TraceName::Kind::mark:
        marks_[name.address] = name.name;
        break;
    }
  }
  std::ranges::stable_sort(names_, {}, &TraceName::time_ns);
}

std::string_view TraceLabels::of(const TraceEvent& event) {
  if (event.kind == EventKind::launch_begin || event.kind == EventKind::launch_end) {
    const auto kernel = kernels_.find(event.address);
    return kernel == kernels_.end() ? std::string_view() : kernel->second;
  }
  if (event.kind == EventKind::mark) {
    const auto mark = marks_.find(event.address);
    return mark == marks_.end() ? std::string_view() : mark->second;
  }
  for (; next_ < names_.size() && names_[next_]->time_ns <= event.time_ns; ++next_) {
    const TraceName& name = *names_[next_];
    const std::uint64_t end = end_of(name.address, name.bytes);
    forget(name.address, end);
    if (name.address < end) ranges_[name.address] = {end, name.name};
  }
  const auto after = ranges_.upper_bound(event.address);
  std::string_view label;
  if (after != ranges_.begin() && std::prev(after)->second.end > event.address)
    label = std::prev(after)->second.name;
  if (event.kind == EventKind::free) forget(event.address, end_of(event.address, event.bytes));
  return label;
}

void TraceLabels::forget(std::uint64_t start, std::uint64_t end) {
  split(start);
  split(end);
  ranges_.erase(ranges_.lower_bound(start), ranges_.lower_bound(end));
}

void TraceLabels::split(std::uint64_t address) {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return;
  const auto range = std::prev(after);
  if (range->first == address || range->second.end <= address) return;
  ranges_[address] = range->second;
  range->second.end = address;
}

}  // namespace wherry::tool
