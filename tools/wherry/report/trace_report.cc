#include "trace_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/page.h"
#include "event_order.h"
#include "range_names.h"
#include "trace_labels.h"

namespace wherry::report {
namespace {

using impl::EventKind;
using impl::TraceEvent;
using impl::TraceName;
using tool::TraceAbout;
using tool::TraceStream;

constexpr std::size_t bins_count = 600;
constexpr std::size_t rows_count = 256;
constexpr std::size_t extents_while_reading = 4096;
constexpr std::size_t extents_shown = 64;
constexpr std::size_t segments_max = 128;
// The length of EventOrder's window: many more events than all threads together record while one of
// them has a fault.
constexpr std::size_t order_window = std::size_t{1} << 18;
// At most so many allocations get a made-up name, which the program's names replace.
constexpr std::size_t unnamed_allocations_max = 4096;

bool uses_memory(EventKind kind) {
  switch (kind) {
    case EventKind::fault:
    case EventKind::migration:
    case EventKind::remote_map:
    case EventKind::duplicate:
    case EventKind::populate:
      return true;
    default:
      return false;
  }
}

bool is_of_memory(EventKind kind) {
  return kind != EventKind::launch_begin && kind != EventKind::launch_end &&
         kind != EventKind::mark;
}

// Calls visit(events) for each part of the trace. Returns what the trace says besides its events,
// or why it cannot be read.
template <typename Visit>
std::variant<TraceAbout, std::string> read_parts(const OpenTrace& open, const Visit& visit) {
  TraceStream stream(open());
  std::vector<TraceEvent> events;
  while (stream.next(events)) {
    visit(events);
    events.clear();
  }
  if (!stream.error().empty()) return stream.error();
  return stream.take_about();
}

// Collects what the first of the two readings of the trace learns.
struct Survey {
  std::uint64_t events = 0;
  AddressExtents used{impl::page_size, extents_while_reading};
  std::vector<TraceName> allocations;  // as ranges with made-up names

  void add(const TraceEvent& event) {
    ++events;
    if (uses_memory(event.kind))
      used.add(event.address, event.kind == EventKind::fault ? 1 : event.bytes);
    if (event.kind == EventKind::allocation && allocations.size() < unnamed_allocations_max)
      allocations.push_back({TraceName::Kind::range, event.time_ns, event.address, event.bytes,
                             fmt::format("{} KiB at {:#x}", event.bytes >> 10, event.address)});
  }
};

tool::RangeNames names_at_the_end(const std::vector<TraceName>& names) {
  std::vector<const TraceName*> ranges;
  for (const TraceName& name : names)
    if (name.kind == TraceName::Kind::range) ranges.push_back(&name);
  std::ranges::stable_sort(ranges, {}, &TraceName::time_ns);
  tool::RangeNames result;
  for (const TraceName* name : ranges) {
    // Names cover whole pages, because each page has its own location.
    const std::uint64_t start = name->address / impl::page_size * impl::page_size;
    const std::uint64_t bytes = std::min(name->bytes, UINT64_MAX - 2 * impl::page_size);
    result.set(start, impl::round_up(name->address - start + bytes, impl::page_size), name->name);
  }
  return result;
}

// Fills the report's counts in the second reading of the trace.
class Counter {
 public:
  explicit Counter(TraceReport& report)
      : report_(report),
        labels_(report.about),
        places_(report.about.machine.page_bytes),
        uses_(report.about.machine.page_bytes) {}

  void add(const TraceEvent& event) {
    const std::string_view label = labels_.of(event);
    report_.timelines.add(event, label);
    if (!is_of_memory(event.kind)) return;
    uses_.add(event, label,
              event.kind == EventKind::fault ? places_.at(event.address) : PageState{});
    places_.apply(event, [&](std::uint64_t address, PageState before, PageState after) {
      if (before.places != after.places)
        report_.residency.change(event.time_ns, address, before.places, after.places);
      if ((after.came & ~before.came) != 0) uses_.add_new_page(event);
    });
  }

  void end() {
    const TraceAbout& about = report_.about;
    report_.timelines.end(about.end_ns);
    report_.residency.end();
    report_.memory = uses_.take();
    const tool::RangeNames names = names_at_the_end(about.names);
    for (const auto& [begin, range] : names.all())
      if (const auto use = report_.memory.find(range.name); use != report_.memory.end())
        use->second.bytes += range.end - begin;
    report_.findings = find(report_.memory, about.machine.processors, about.machine.page_bytes);
  }

 private:
  TraceReport& report_;
  tool::TraceLabels labels_;
  PagePlaces places_;
  MemoryUses uses_;
};

std::unique_ptr<TraceReport> empty_report(TraceAbout about, Survey& survey) {
  const impl::TraceMachine& machine = about.machine;
  const TimeBins bins = TimeBins::between(machine.start_ns, about.end_ns, bins_count);
  AddressRows rows(survey.used.take(extents_shown), names_at_the_end(about.names),
                   machine.page_bytes, rows_count, segments_max);
  about.names.insert(about.names.begin(), survey.allocations.begin(), survey.allocations.end());
  auto report = std::make_unique<TraceReport>(std::move(about), bins, std::move(rows));
  report->events = survey.events;
  return report;
}

}  // namespace

TraceReport::TraceReport(TraceAbout trace, const TimeBins& times, AddressRows addresses)
    : about(std::move(trace)),
      bins(times),
      rows(std::move(addresses)),
      residency(rows, bins, about.machine.page_bytes, about.machine.processors.size()),
      timelines(bins) {}

std::variant<std::unique_ptr<const TraceReport>, std::string> make_report(const OpenTrace& open) {
  Survey survey;
  auto about = read_parts(open, [&](const std::vector<TraceEvent>& events) {
    for (const TraceEvent& event : events) survey.add(event);
  });
  if (auto* wrong = std::get_if<std::string>(&about)) return std::move(*wrong);
  if (const std::uint64_t page = std::get<TraceAbout>(about).machine.page_bytes;
      page != impl::page_size)
    return fmt::format("its pages have {} bytes; reports are for pages of {}", page,
                       impl::page_size);
  auto report = empty_report(std::get<TraceAbout>(std::move(about)), survey);
  Counter counter(*report);
  EventOrder order(order_window, [&](const TraceEvent& event) { counter.add(event); });
  const auto again =
      read_parts(open, [&](const std::vector<TraceEvent>& events) { order.add(events); });
  if (const auto* wrong = std::get_if<std::string>(&again)) return *wrong;
  order.end();
  counter.end();
  return report;
}

}  // namespace wherry::report
