#include "trace/trace_chunks.h"

#include <algorithm>

namespace wherry::impl {
namespace {

// Source and destination in one byte: each is the processor's index plus one, or 0 for
// `no_processor`.
std::uint8_t ends_of(const TraceEvent& event) {
  return static_cast<std::uint8_t>((event.source + 1) | ((event.destination + 1) << 4));
}

std::uint8_t fields_of(const TraceEvent& event) {
  const auto field = [](bool there, EventField bit) { return there ? bit : 0; };
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
  // Room for 5 bytes, and 8 numbers of at most 10 bytes.
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

}  // namespace

void append_trace_header(TraceBytes& file) {
  TraceSink sink(file);
  for (const char letter : trace_magic) sink.put_byte(static_cast<std::uint8_t>(letter));
  sink.put_word(trace_version);
}

bool are_whole_chunks(std::span<const std::byte> encoded, std::uint64_t count) {
  const auto word_at = [encoded](std::size_t at) {
    std::uint32_t word = 0;
    for (unsigned i = 0; i < 4; ++i)
      word |= std::to_integer<std::uint32_t>(encoded[at + i]) << (8 * i);
    return word;
  };
  TraceBytes header;
  append_trace_header(header);
  const bool has_header =
      encoded.size() >= header.size() && std::ranges::equal(header, encoded.first(header.size()));
  std::size_t at = has_header && count != 0 ? header.size() : 0;
  while (at < count) at += chunk_header_bytes + word_at(at + 4);
  return at == count;
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

void append_settings(TraceBytes& file, const TraceSettings& settings) {
  TraceBytes payload;
  TraceSink sink(payload);
  for (const std::string* const text : {&settings.policy, &settings.policy_in_force,
                                        &settings.version, &settings.kernel, &settings.cpu})
    sink.put_text(*text);
  sink.put(settings.cpus);
  sink.put(settings.nodes);
  sink.put(settings.environment.size());
  for (const std::string& line : settings.environment) sink.put_text(line);
  append_chunk(file, TraceChunk::settings, payload);
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

void append_drops(TraceBytes& file, const TraceDrops& drops) {
  TraceBytes payload;
  TraceSink sink(payload);
  sink.put(drops.size());
  for (const std::uint64_t number : drops) sink.put(number);
  append_chunk(file, TraceChunk::drops, payload);
}

void append_end(TraceBytes& file, std::uint64_t time_ns) {
  TraceBytes payload;
  TraceSink(payload).put(time_ns);
  append_chunk(file, TraceChunk::end, payload);
}

}  // namespace wherry::impl
