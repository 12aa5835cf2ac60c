#include "trace_chrome.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "event_names.h"
#include "trace_labels.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;
using impl::EventKind;
using impl::TraceEvent;

// Viewers reserve process 0 for the idle process.
constexpr int process_of(int processor) {
  return 1 + std::max(processor, 0);
}

class ChromeReport {
 public:
  ChromeReport(const Trace& trace, Output& output)
      : trace_(trace), output_(output), labels_(trace), start_ns_(trace.machine.start_ns) {}

  void write() {
    output_.write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (int i = 0; i < static_cast<int>(trace_.machine.processors.size()); ++i) {
      put({{"ph", "M"}, {"name", "process_name"}, {"args", {{"name", processor_name(i)}}}},
          process_of(i), 0);
      put({{"ph", "M"}, {"name", "process_sort_index"}, {"args", {{"sort_index", i}}}},
          process_of(i), 0);
    }
    for (const TraceEvent& event : trace_.events) put_event(event);
    for (const auto& [launch, begin] : running_) put_launch(begin, trace_.end_ns, "still running");
    output_.write("\n]}\n");
  }

 private:
  using LaunchId = std::pair<int, std::uint32_t>;  // the device, and the launch's number there

  void put(Json json, int process, int row) {
    json["pid"] = process;
    json["tid"] = row;
    output_.write(separator_ + json.dump(-1, ' ', false, Json::error_handler_t::replace));
    separator_ = ",\n";
  }

  // Microseconds since recording began, as a double: an integral number would lose digits.
  double microseconds(std::uint64_t time_ns) const {
    return static_cast<double>(static_cast<std::int64_t>(time_ns - start_ns_)) / 1e3;
  }

  // A row of the process that is free from `begin` to `end`. Overlapping slices go into several
  // rows of the same name, because viewers cannot draw them in one row.
  int row_for(int process, const std::string& name, std::uint64_t begin, std::uint64_t end) {
    auto& lanes = lanes_[{process, name}];
    const auto free =
        std::ranges::find_if(lanes, [&](const Lane& lane) { return lane.end <= begin; });
    if (free != lanes.end()) {
      free->end = end;
      return free->row;
    }
    const int row = ++rows_;
    lanes.push_back({row, end});
    put({{"ph", "M"}, {"name", "thread_name"}, {"args", {{"name", name}}}}, process, row);
    return row;
  }

  void put_slice(const std::string& row, int processor, const std::string& name,
                 std::uint64_t begin, std::uint64_t end, Json arguments) {
    const int process = process_of(processor);
    Json json{{"ph", "X"},
              {"name", name},
              {"cat", row},
              {"ts", microseconds(begin)},
              {"dur", static_cast<double>(end - begin) / 1e3},
              {"args", std::move(arguments)}};
    put(std::move(json), process, row_for(process, row, begin, end));
  }

  Json arguments_of(const TraceEvent& event, std::string_view label) const {
    Json json{{"address", fmt::format("{:#x}", event.address)}, {"bytes", event.bytes}};
    if (!label.empty()) json["memory"] = label;
    if (event.cause != impl::EventCause::none) json["cause"] = to_string(event.cause);
    if (const auto detail = detail_name(event); !detail.empty()) json["detail"] = detail;
    if (event.source >= 0) json["from"] = processor_name(event.source);
    if (event.destination >= 0) json["to"] = processor_name(event.destination);
    if (event.processors != 0) json["processors"] = event.processors;
    return json;
  }

  void put_event(const TraceEvent& event) {
    const std::string_view label = labels_.of(event);
    const std::uint64_t end = event.time_ns + event.duration_ns;
    const LaunchId launch{event.destination, event.value};
    switch (event.kind) {
      case EventKind::fault:
        put_slice(fmt::format("faults of thread {}", event.thread), event.destination,
                  fmt::format("{} fault", to_string(event.access)), event.time_ns, end,
                  arguments_of(event, label));
        return;
      case EventKind::migration:
      case EventKind::duplicate:
      case EventKind::populate:
        put_slice("pages that come", event.destination, std::string(to_string(event.kind)),
                  event.time_ns, end, arguments_of(event, label));
        return;
      case EventKind::throttle_end:
        put_slice("throttled", event.destination, "throttled", event.time_ns, end,
                  arguments_of(event, label));
        return;
      case EventKind::eviction:
        put_slice("evictions", event.source, "eviction", event.time_ns, end,
                  arguments_of(event, label));
        return;
      case EventKind::mark:
        put_slice(fmt::format("marks of thread {}", event.thread),
                  impl::index_of(impl::Processor::host()), std::string(label), event.time_ns, end,
                  Json::object());
        return;
      case EventKind::launch_begin:
        running_[launch] = event;
        return;
      case EventKind::launch_end:
        if (const auto begin = running_.find(launch); begin != running_.end()) {
          put_launch(begin->second, event.time_ns, detail_name(event));
          running_.erase(begin);
        }
        return;
      default:
        put_moment(event, label);
    }
  }

  void put_launch(const TraceEvent& begin, std::uint64_t end, std::string_view how) {
    const std::string_view name = labels_.of(begin);
    Json arguments{{"items", begin.bytes}, {"end", how}};
    put_slice("kernels", begin.destination, name.empty() ? "kernel" : std::string(name),
              begin.time_ns, std::max(end, begin.time_ns), std::move(arguments));
  }

  void put_moment(const TraceEvent& event, std::string_view label) {
    // Pages that are held stay at the source, whichever processor needs them.
    const bool is_at_source = event.destination < 0 || event.kind == EventKind::held;
    const int processor = is_at_source ? event.source : event.destination;
    const int process = process_of(processor);
    Json json{{"ph", "i"},
              {"s", "t"},
              {"name", to_string(event.kind)},
              {"cat", "moments"},
              {"ts", microseconds(event.time_ns)},
              {"args", arguments_of(event, label)}};
    put(std::move(json), process, row_for(process, "moments", 0, 0));
  }

  struct Lane {
    int row;
    std::uint64_t end;  // the end of its last slice
  };

  const Trace& trace_;
  Output& output_;
  TraceLabels labels_;
  const std::uint64_t start_ns_;
  std::string separator_ = "\n";
  std::map<std::pair<int, std::string>, std::vector<Lane>> lanes_;
  int rows_ = 0;
  std::map<LaunchId, TraceEvent> running_;
};

}  // namespace

void write_chrome(const Trace& trace, Output& output) {
  ChromeReport(trace, output).write();
}

}  // namespace wherry::tool
