#include "trace_labels.h"

#include <fmt/core.h>

#include <algorithm>

namespace wherry::tool {
namespace {

using impl::EventKind;
using impl::TraceEvent;
using impl::TraceName;

// "scale" for "scale (./program+0x1234)"; all of the text if it has no name.
std::string short_name(const std::string& code) {
  const std::size_t place = code.rfind(" (");
  return place == std::string::npos ? code : code.substr(0, place);
}

}  // namespace

std::string processor_name(int index) {
  if (index < 0) return {};
  return index == 0 ? "host" : fmt::format("device {}", index - 1);
}

TraceLabels::TraceLabels(const TraceAbout& trace) {
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
  for (; next_ < names_.size() && names_[next_]->time_ns <= event.time_ns; ++next_)
    ranges_.set(names_[next_]->address, names_[next_]->bytes, names_[next_]->name);
  const std::string_view label = ranges_.at(event.address);
  if (event.kind == EventKind::free) ranges_.forget(event.address, event.bytes);
  return label;
}

}  // namespace wherry::tool
