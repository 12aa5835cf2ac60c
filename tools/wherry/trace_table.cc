#include "trace_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "event_names.h"
#include "settings_json.h"
#include "trace_labels.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;
using impl::EventKind;
using impl::TraceEvent;

// The program chooses the names, so they may contain any bytes.
std::string as_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"') result += '"';
    result += letter;
  }
  return result + '"';
}

constexpr std::array<std::string_view, 3> name_kinds{"memory", "kernel", "mark"};

Json machine_json(const impl::TraceMachine& machine) {
  Json json{{"program", machine.program},
            {"process", machine.process},
            {"trap", machine.trap},
            {"start_ns", machine.start_ns},
            {"start_unix_ns", machine.start_unix_ns},
            {"page_bytes", machine.page_bytes},
            {"block_bytes", machine.block_bytes},
            {"region_bytes", machine.region_bytes},
            {"arena_base", machine.arena_base},
            {"arena_bytes", machine.arena_bytes},
            {"processors", Json::array()}};
  int index = 0;
  for (const impl::TraceProcessor& processor : machine.processors)
    json["processors"].push_back({{"name", processor_name(index++)},
                                  {"kind", to_string(processor.kind)},
                                  {"capacity", processor.capacity},
                                  {"concurrent", processor.concurrent},
                                  {"workers", processor.workers},
                                  {"nodes", processor.nodes}});
  return json;
}

Json names_json(const Trace& trace) {
  Json json = Json::array();
  for (const impl::TraceName& name : trace.names) {
    json.push_back({{"of", name_kinds[static_cast<std::size_t>(name.kind)]},
                    {"time_ns", name.time_ns},
                    {"address", name.address},
                    {"bytes", name.bytes},
                    {"name", name.name}});
  }
  return json;
}

Json drops_json(const Trace& trace) {
  Json json = Json::object();
  for (unsigned kind = 0; kind < impl::event_kinds; ++kind)
    json[std::string(to_string(static_cast<EventKind>(kind)))] = trace.drops[kind];
  return json;
}

Json event_json(const TraceEvent& event, std::string_view name) {
  return {{"time_ns", event.time_ns},
          {"kind", to_string(event.kind)},
          {"cause", to_string(event.cause)},
          {"detail", detail_name(event)},
          {"access", to_string(event.access)},
          {"source", event.source},
          {"destination", event.destination},
          {"address", event.address},
          {"bytes", event.bytes},
          {"duration_ns", event.duration_ns},
          {"thread", event.thread},
          {"processors", event.processors},
          {"value", event.value},
          {"name", name}};
}

}  // namespace

void write_csv(const Trace& trace, Output& output) {
  output.write(
      "time_ns,kind,cause,detail,access,source,destination,address,bytes,duration_ns,thread,"
      "processors,value,name\r\n");
  TraceLabels labels(trace);
  for (const TraceEvent& event : trace.events)
    output.write(fmt::format(
        "{},{},{},{},{},{},{},{:#x},{},{},{},{},{},{}\r\n", event.time_ns, to_string(event.kind),
        to_string(event.cause), quoted(detail_name(event)), to_string(event.access), event.source,
        event.destination, event.address, event.bytes, event.duration_ns, event.thread,
        event.processors, event.value, quoted(labels.of(event))));
}

void write_json(const Trace& trace, Output& output) {
  output.write(fmt::format(
      "{{\"machine\":{},\n\"settings\":{},\n\"complete\":{},\n\"end_ns\":{},\n"
      "\"dropped\":{},\n\"names\":{},\n\"events\":[",
      as_text(machine_json(trace.machine)), as_text(settings_json(trace)), trace.complete,
      trace.end_ns, as_text(drops_json(trace)), as_text(names_json(trace))));
  TraceLabels labels(trace);
  const char* separator = "\n";
  for (const TraceEvent& event : trace.events) {
    output.write(separator + as_text(event_json(event, labels.of(event))));
    separator = ",\n";
  }
  output.write("\n]}\n");
}

}  // namespace wherry::tool
