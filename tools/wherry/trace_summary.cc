#include "trace_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "event_names.h"
#include "trace_head.h"
#include "trace_labels.h"

namespace wherry::tool {
namespace {

using impl::EventCause;
using impl::EventKind;
using impl::TraceEvent;

struct Sum {
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t longest_ns = 0;

  void add(const TraceEvent& event) {
    ++events;
    bytes += event.bytes;
    duration_ns += event.duration_ns;
    longest_ns = std::max(longest_ns, event.duration_ns);
  }
  void add(const Sum& more) {
    events += more.events;
    bytes += more.bytes;
    duration_ns += more.duration_ns;
    longest_ns = std::max(longest_ns, more.longest_ns);
  }
};

struct RangeSum {
  Sum faults;
  std::uint64_t moved_bytes = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t evicted_bytes = 0;
  std::uint64_t thrashings = 0;
  std::uint64_t throttled_ns = 0;

  void add(const TraceEvent& event) {
    if (event.kind == EventKind::fault) faults.add(event);
    if (event.kind == EventKind::thrashing) ++thrashings;
    if (event.kind == EventKind::throttle_end) throttled_ns += event.duration_ns;
    if (event.kind == EventKind::duplicate) copied_bytes += event.bytes;
    if (event.kind != EventKind::migration) return;
    (event.cause == EventCause::eviction ? evicted_bytes : moved_bytes) += event.bytes;
  }
};

struct Summary {
  std::map<std::pair<EventKind, EventCause>, Sum> kinds;
  std::map<std::tuple<EventKind, int, int>, Sum> pairs;  // by source and destination
  std::map<std::string, RangeSum, std::less<>> ranges;
  std::map<std::string, Sum, std::less<>> marks;
};

bool is_between_processors(EventKind kind) {
  return kind == EventKind::migration || kind == EventKind::duplicate ||
         kind == EventKind::remote_map || kind == EventKind::held;
}
bool is_of_memory(EventKind kind) {
  return kind != EventKind::launch_begin && kind != EventKind::launch_end &&
         kind != EventKind::mark;
}

Summary summarize(const Trace& trace) {
  Summary summary;
  TraceLabels labels(trace);
  for (const TraceEvent& event : trace.events) {
    const std::string_view label = labels.of(event);
    TraceEvent counted = event;
    if (!is_of_memory(event.kind)) counted.bytes = 0;  // these count items
    summary.kinds[{event.kind, event.cause}].add(counted);
    if (event.kind == EventKind::mark) summary.marks[std::string(label)].add(event);
    if (is_between_processors(event.kind))
      summary.pairs[{event.kind, event.source, event.destination}].add(event);
    if (is_of_memory(event.kind))
      summary.ranges[std::string(label.empty() ? "(no name)" : label)].add(event);
  }
  return summary;
}

double milliseconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e6;
}
double mebibytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

std::string times_text(const Sum& sum) {
  const double mean_us = static_cast<double>(sum.duration_ns) / 1e3 /
                         static_cast<double>(std::max<std::uint64_t>(sum.events, 1));
  return fmt::format("{:>12.3f}{:>12.2f}{:>12.2f}\n", milliseconds(sum.duration_ns), mean_us,
                     static_cast<double>(sum.longest_ns) / 1e3);
}
std::string sum_text(const Sum& sum) {
  return fmt::format("{:>10}{:>12.2f}", sum.events, mebibytes(sum.bytes)) + times_text(sum);
}
std::string sum_head(std::string_view what) {
  return fmt::format("\n{:<40}{:>10}{:>12}{:>12}{:>12}{:>12}\n", what, "events", "MiB", "ms",
                     "mean us", "longest us");
}

std::string few_accesses_text(const Trace& trace) {
  if (!trace.settings || leaves_pages(trace.settings->policy_in_force) != true) return {};
  return "This policy leaves pages mapped: the trace lacks most accesses to them. To judge "
         "policies "
         "that move pages, record under WHERRY_POLICY=migrate-always.\n";
}

// Says how often pages could not move, and what to do about that.
std::string held_text(const Summary& summary) {
  Sum held;
  for (const auto& [key, sum] : summary.kinds)
    if (key.first == EventKind::held) held.add(sum);
  if (held.events == 0) return {};
  return fmt::format(
      "\nHeld: {} times pages could not move, {:.2f} MiB in all, because a system call, a pipe or "
      "another process held them. Pin such memory with wherryPinPages, or keep kernels off it "
      "during the I/O (docs/system-calls.md).\n",
      held.events, mebibytes(held.bytes));
}

std::string drops_text(const Trace& trace) {
  std::string text;
  for (unsigned kind = 0; kind < impl::event_kinds; ++kind)
    if (trace.drops[kind] != 0)
      text +=
          fmt::format("{:<40}{:>10}\n", to_string(static_cast<EventKind>(kind)), trace.drops[kind]);
  return text.empty() ? "\nNo event was dropped.\n" : "\nDropped, and missing above\n" + text;
}

}  // namespace

void write_summary(const Trace& trace, Output& output) {
  const Summary summary = summarize(trace);
  output.write(trace_head(trace, trace.events.size()));
  output.write(few_accesses_text(trace));
  output.write(sum_head("kind, cause"));
  for (const auto& [key, sum] : summary.kinds) {
    std::string name(to_string(key.first));
    if (key.second != EventCause::none) name += fmt::format(", {}", to_string(key.second));
    output.write(fmt::format("{:<40}", name) + sum_text(sum));
  }
  if (!summary.pairs.empty()) output.write(sum_head("from, to"));
  for (const auto& [key, sum] : summary.pairs) {
    const auto& [kind, from, to] = key;
    output.write(
        fmt::format("{:<40}", fmt::format("{}, {} -> {}", to_string(kind), processor_name(from),
                                          to < 0 ? "none" : processor_name(to))) +
        sum_text(sum));
  }
  if (!summary.marks.empty())
    output.write(fmt::format("\n{:<40}{:>10}{:>12}{:>12}{:>12}\n", "marks of the program", "events",
                             "ms", "mean us", "longest us"));
  for (const auto& [text, sum] : summary.marks)
    output.write(fmt::format("{:<40}{:>10}", text, sum.events) + times_text(sum));
  if (!summary.ranges.empty())
    output.write(fmt::format("\n{:<40}{:>10}{:>12}{:>12}{:>12}{:>12}{:>11}{:>14}\n", "memory",
                             "faults", "faults ms", "moved MiB", "copied MiB", "evicted MiB",
                             "thrashing", "throttled ms"));
  for (const auto& [name, sum] : summary.ranges)
    output.write(fmt::format("{:<40}{:>10}{:>12.3f}{:>12.2f}{:>12.2f}{:>12.2f}{:>11}{:>14.3f}\n",
                             name, sum.faults.events, milliseconds(sum.faults.duration_ns),
                             mebibytes(sum.moved_bytes), mebibytes(sum.copied_bytes),
                             mebibytes(sum.evicted_bytes), sum.thrashings,
                             milliseconds(sum.throttled_ns)));
  output.write(held_text(summary));
  output.write(drops_text(trace));
}

}  // namespace wherry::tool
