#include "trace_payloads.h"

#include <limits>
#include <utility>

#include "trace_source.h"

namespace wherry::tool {

using namespace impl;

namespace {

// Returns nullopt if the event is malformed.
std::optional<TraceEvent> take_event(TraceSource& source, const TraceEvent& before,
                                     std::size_t processors) {
  TraceEvent event;
  const std::uint8_t kind = source.take_byte();
  const std::uint8_t fields = source.take_byte();
  event.kind = static_cast<EventKind>(kind);
  event.time_ns = source.take_step(before.time_ns);
  if ((fields & has_address) != 0) event.address = source.take_step(before.address);
  if ((fields & has_bytes) != 0) event.bytes = source.take();
  if ((fields & has_duration) != 0) event.duration_ns = source.take();
  constexpr auto word_max = std::numeric_limits<std::uint32_t>::max();
  if ((fields & has_thread) != 0) event.thread = source.take_up_to(word_max);
  if ((fields & has_ends) != 0) {
    const std::uint8_t ends = source.take_byte();
    event.source = static_cast<std::int8_t>((ends & 15) - 1);
    event.destination = static_cast<std::int8_t>((ends >> 4) - 1);
  }
  std::uint8_t cause = 0, access = 0;
  if ((fields & has_reason) != 0) {
    cause = source.take_byte();
    const std::uint8_t both = source.take_byte();
    access = both & 3;
    event.detail = both >> 2;
  }
  event.cause = static_cast<EventCause>(cause);
  event.access = static_cast<EventAccess>(access);
  if ((fields & has_processors) != 0)
    event.processors = source.take_up_to(std::numeric_limits<std::uint16_t>::max());
  if ((fields & has_value) != 0) event.value = source.take_up_to(word_max);
  const auto exists = [&](std::int8_t processor) {
    return processor < static_cast<int>(processors);
  };
  if (!source.good() || kind >= event_kinds || cause >= event_causes || access >= event_accesses ||
      !exists(event.source) || !exists(event.destination))
    return std::nullopt;
  return event;
}

// Whether the source is good() and fully consumed.
bool is_over(const TraceSource& source) {
  return source.good() && source.empty();
}

}  // namespace

bool parse_events(std::span<const std::byte> payload, std::size_t processors,
                  std::vector<TraceEvent>& events) {
  TraceSource source(payload);
  TraceEvent before;
  for (std::uint64_t left = source.take_up_to(std::uint64_t{chunk_events_max}); left > 0; --left) {
    const auto event = take_event(source, before, processors);
    if (!event) return false;
    events.push_back(*event);
    const std::uint64_t address = event->address != 0 ? event->address : before.address;
    before = *event;
    before.address = address;
  }
  return is_over(source);
}

std::optional<TraceMachine> parse_machine(std::span<const std::byte> payload) {
  constexpr auto word_max = std::numeric_limits<std::uint32_t>::max();
  TraceSource source(payload);
  TraceMachine machine;
  for (std::uint64_t* const number :
       {&machine.start_ns, &machine.start_unix_ns, &machine.process, &machine.page_bytes,
        &machine.block_bytes, &machine.region_bytes, &machine.arena_base, &machine.arena_bytes})
    *number = source.take();
  machine.program = source.take_text();
  machine.trap = source.take_text();
  for (auto left = source.take_up_to(max_processors); left > 0; --left) {
    TraceProcessor processor;
    const std::uint8_t kind = source.take_byte();
    if (kind > code_of(TraceProcessor::Kind::coherent)) return std::nullopt;
    processor.kind = static_cast<TraceProcessor::Kind>(kind);
    processor.concurrent = source.take_byte() != 0;
    processor.capacity = source.take();
    processor.workers = source.take_up_to(word_max);
    for (auto nodes = source.take_up_to(source.left()); nodes > 0; --nodes)
      processor.nodes.push_back(source.take_up_to(word_max));
    machine.processors.push_back(std::move(processor));
  }
  if (!is_over(source) || machine.processors.empty() || machine.page_bytes == 0)
    return std::nullopt;
  return machine;
}

std::optional<TraceSettings> parse_settings(std::span<const std::byte> payload) {
  constexpr auto word_max = std::numeric_limits<std::uint32_t>::max();
  TraceSource source(payload);
  TraceSettings settings;
  for (std::string* const text : {&settings.policy, &settings.policy_in_force, &settings.version,
                                  &settings.kernel, &settings.cpu})
    *text = source.take_text();
  settings.cpus = source.take_up_to(word_max);
  settings.nodes = source.take_up_to(word_max);
  for (auto left = source.take_up_to(source.left()); left > 0; --left)
    settings.environment.push_back(source.take_text());
  return is_over(source) ? std::optional(std::move(settings)) : std::nullopt;
}

bool parse_names(std::span<const std::byte> payload, std::vector<TraceName>& names) {
  TraceSource source(payload);
  for (std::uint64_t left = source.take_up_to(std::uint64_t{payload.size()}); left > 0; --left) {
    TraceName name;
    const std::uint8_t kind = source.take_byte();
    name.kind = static_cast<TraceName::Kind>(kind);
    name.time_ns = source.take();
    name.address = source.take();
    name.bytes = source.take();
    name.name = source.take_text();
    if (!source.good() || kind > code_of(TraceName::Kind::mark)) return false;
    names.push_back(std::move(name));
  }
  return is_over(source);
}

std::optional<TraceDrops> parse_drops(std::span<const std::byte> payload) {
  TraceSource source(payload);
  TraceDrops drops{};
  const auto count = source.take_up_to(drops.size());
  for (std::size_t i = 0; i < count; ++i) drops[i] = source.take();
  return is_over(source) ? std::optional(drops) : std::nullopt;
}

std::optional<std::uint64_t> parse_end(std::span<const std::byte> payload) {
  TraceSource source(payload);
  const std::uint64_t time_ns = source.take();
  return is_over(source) ? std::optional(time_ns) : std::nullopt;
}

}  // namespace wherry::tool
