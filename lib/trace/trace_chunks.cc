#include "trace/trace_chunks.h"

#include <limits>

namespace wherry::impl {
namespace {

// Which fields of an event are present: those that are not 0, and processors that are not
// `no_processor`.
enum Field : std::uint8_t {
  has_address = 1,
  has_bytes = 2,
  has_duration = 4,
  has_thread = 8,
  has_ends = 16,
  has_reason = 32,
  has_processors = 64,
  has_value = 128,
};

// Source and destination in one byte: each is the processor's index plus one, or 0 for
// `no_processor`.
std::uint8_t ends_of(const TraceEvent& event) {
  return static_cast<std::uint8_t>((event.source + 1) | ((event.destination + 1) << 4));
}

std::uint8_t fields_of(const TraceEvent& event) {
  const auto field = [](bool there, Field bit) { return there ? bit : 0; };
  return static_cast<std::uint8_t>(
      field(event.address != 0, has_address) | field(event.bytes != 0, has_bytes) |
      field(event.duration_ns != 0, has_duration) | field(event.thread != 0, has_thread) |
      field(ends_of(event) != 0, has_ends) |
      field(code_of(event.cause) != 0 || code_of(event.access) != 0 || event.detail != 0,
            has_reason) |
      field(event.processors != 0, has_processors) | field(event.value != 0, has_value));
}

// The bytes of one event. A fixed array, because the checks of a vector would take most of the time
// of encoding.
class EventBytes {
 public:
  void push_back(std::byte byte) { bytes_[size_++] = byte; }
  void append_to(TraceBytes& all) const {
    all.insert(all.end(), bytes_.begin(), bytes_.begin() + size_);
  }

 private:
  // 5 bytes, and 8 numbers of at most 10.
  std::array<std::byte, 85> bytes_;
  std::ptrdiff_t size_ = 0;
};

void put_event(BasicTraceSink<EventBytes> sink, const TraceEvent& before, const TraceEvent& event) {
  const std::uint8_t fields = fields_of(event);
  sink.put_byte(code_of(event.kind));
  sink.put_byte(fields);
  sink.put_step(before.time_ns, event.time_ns);
  if ((fields & has_address) != 0) sink.put_step(before.address, event.address);
  if ((fields & has_bytes) != 0) sink.put(event.bytes);
  if ((fields & has_duration) != 0) sink.put(event.duration_ns);
  if ((fields & has_thread) != 0) sink.put(event.thread);
  if ((fields & has_ends) != 0) sink.put_byte(ends_of(event));
  if ((fields & has_reason) != 0) {
    sink.put_byte(code_of(event.cause));
    sink.put_byte(static_cast<std::uint8_t>(code_of(event.access) | (event.detail << 2)));
  }
  if ((fields & has_processors) != 0) sink.put(event.processors);
  if ((fields & has_value) != 0) sink.put(event.value);
}

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

void append_trace_header(TraceBytes& file) {
  TraceSink sink(file);
  for (const char letter : trace_magic) sink.put_byte(static_cast<std::uint8_t>(letter));
  sink.put_word(trace_version);
}

void append_chunk(TraceBytes& file, TraceChunk kind, std::span<const std::byte> payload) {
  TraceBytes header;
  TraceSink sink(header);
  sink.put_word(code_of(kind));
  sink.put_word(static_cast<std::uint32_t>(payload.size()));
  sink.put_word(crc32(payload, crc32(header)));
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), payload.begin(), payload.end());
}

void append_events(TraceBytes& file, std::span<const TraceEvent> events) {
  constexpr std::size_t usual_bytes = 24;
  TraceBytes payload;
  payload.reserve(events.size() * usual_bytes);
  TraceSink(payload).put(events.size());
  TraceEvent before;
  for (const TraceEvent& event : events) {
    EventBytes bytes;
    put_event(BasicTraceSink(bytes), before, event);
    bytes.append_to(payload);
    const std::uint64_t address = event.address != 0 ? event.address : before.address;
    before = event;
    before.address = address;
  }
  append_chunk(file, TraceChunk::events, payload);
}

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

void append_machine(TraceBytes& file, const TraceMachine& machine) {
  TraceBytes payload;
  TraceSink sink(payload);
  for (const std::uint64_t number :
       {machine.start_ns, machine.start_unix_ns, machine.process, machine.page_bytes,
        machine.block_bytes, machine.region_bytes, machine.arena_base, machine.arena_bytes})
    sink.put(number);
  sink.put_text(machine.program);
  sink.put_text(machine.trap);
  sink.put(machine.processors.size());
  for (const TraceProcessor& processor : machine.processors) {
    sink.put_byte(code_of(processor.kind));
    sink.put_byte(processor.concurrent ? 1 : 0);
    sink.put(processor.capacity);
    sink.put(processor.workers);
    sink.put(processor.nodes.size());
    for (const std::uint32_t node : processor.nodes) sink.put(node);
  }
  append_chunk(file, TraceChunk::machine, payload);
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
    if (kind > code_of(TraceProcessor::Kind::isolated)) return std::nullopt;
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

void append_names(TraceBytes& file, std::span<const TraceName> names) {
  TraceBytes payload;
  TraceSink sink(payload);
  sink.put(names.size());
  for (const TraceName& name : names) {
    sink.put_byte(code_of(name.kind));
    sink.put(name.time_ns);
    sink.put(name.address);
    sink.put(name.bytes);
    sink.put_text(name.name);
  }
  append_chunk(file, TraceChunk::names, payload);
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
    if (!source.good() || kind > code_of(TraceName::Kind::kernel)) return false;
    names.push_back(std::move(name));
  }
  return is_over(source);
}

void append_drops(TraceBytes& file, const TraceDrops& drops) {
  TraceBytes payload;
  TraceSink sink(payload);
  sink.put(drops.size());
  for (const std::uint64_t number : drops) sink.put(number);
  append_chunk(file, TraceChunk::drops, payload);
}

std::optional<TraceDrops> parse_drops(std::span<const std::byte> payload) {
  TraceSource source(payload);
  TraceDrops drops{};
  const auto count = source.take_up_to(drops.size());
  for (std::size_t i = 0; i < count; ++i) drops[i] = source.take();
  return is_over(source) ? std::optional(drops) : std::nullopt;
}

void append_end(TraceBytes& file, std::uint64_t time_ns) {
  TraceBytes payload;
  TraceSink(payload).put(time_ns);
  append_chunk(file, TraceChunk::end, payload);
}

std::optional<std::uint64_t> parse_end(std::span<const std::byte> payload) {
  TraceSource source(payload);
  const std::uint64_t time_ns = source.take();
  return is_over(source) ? std::optional(time_ns) : std::nullopt;
}

}  // namespace wherry::impl
