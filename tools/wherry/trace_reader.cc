#include "trace_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "trace_payloads.h"
#include "trace_source.h"

namespace wherry::tool {

using namespace impl;

namespace {

struct Chunk {
  std::uint32_t kind = 0;
  std::span<const std::byte> payload;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> file) : file_(file) {}

  std::variant<Trace, TraceError> read() {
    if (!read_header()) return TraceError{error_};
    while (const auto chunk = next_chunk())
      if (!take(*chunk)) return wrong("the chunk's content does not match its kind");
    if (!error_.empty()) return TraceError{error_};
    if (trace_.machine.processors.empty())
      return wrong("the file breaks off before its first chunk ends");
    finish();
    return std::move(trace_);
  }

 private:
  TraceError wrong(std::string_view why) const {
    return {fmt::format("at byte {}: {}", chunk_at_, why)};
  }

  bool read_header() {
    if (!begins_as_trace(file_)) {
      error_ = "the file is not a Wherry trace";
      return false;
    }
    TraceSource source(file_.subspan(trace_magic.size()));
    const std::uint32_t version = source.take_word();
    if (!source.good()) error_ = "the file breaks off in its header";
    if (source.good() && version != trace_version)
      error_ = fmt::format("the trace has version {}; this program reads version {}", version,
                           trace_version);
    at_ = trace_header_bytes;
    return error_.empty();
  }

  // Returns nullopt if no complete chunk is left, or, with error_ set, if the next chunk is
  // invalid.
  std::optional<Chunk> next_chunk() {
    chunk_at_ = at_;
    const auto rest = file_.subspan(std::min(at_, file_.size()));
    if (rest.empty() || ended_) {
      if (!rest.empty()) error_ = wrong("there is data after the end of the trace").message;
      return std::nullopt;
    }
    TraceSource source(rest);
    Chunk chunk;
    chunk.kind = source.take_word();
    const std::uint32_t bytes = source.take_word();
    const std::uint32_t sum = source.take_word();
    if (!source.good()) return std::nullopt;
    if (bytes > chunk_payload_max) {
      error_ = wrong("the chunk is too long").message;
      return std::nullopt;
    }
    if (source.left() < bytes) return std::nullopt;
    chunk.payload = rest.subspan(chunk_header_bytes, bytes);
    if (crc32(chunk.payload, crc32(rest.first(8))) != sum) {
      error_ = wrong("the checksum does not match the chunk").message;
      return std::nullopt;
    }
    at_ += chunk_header_bytes + bytes;
    return chunk;
  }

  // Returns false if the chunk is malformed, or if its kind may not occur here.
  bool take(const Chunk& chunk) {
    const bool first = trace_.machine.processors.empty();
    if (first != (chunk.kind == code_of(TraceChunk::machine))) return false;
    switch (static_cast<TraceChunk>(chunk.kind)) {
      case TraceChunk::machine: {
        auto machine = parse_machine(chunk.payload);
        if (machine) trace_.machine = std::move(*machine);
        return machine.has_value();
      }
      case TraceChunk::settings: {
        if (trace_.settings) return false;
        trace_.settings = parse_settings(chunk.payload);
        return trace_.settings.has_value();
      }
      case TraceChunk::events:
        return parse_events(chunk.payload, trace_.machine.processors.size(), trace_.events);
      case TraceChunk::names:
        return parse_names(chunk.payload, trace_.names);
      case TraceChunk::drops: {
        const auto drops = parse_drops(chunk.payload);
        if (drops) trace_.drops = *drops;
        return drops.has_value();
      }
      case TraceChunk::end: {
        const auto end = parse_end(chunk.payload);
        if (end) trace_.end_ns = *end;
        ended_ = end.has_value();
        return ended_;
      }
    }
    return true;  // A kind that a later version of the format added: this reader skips it.
  }

  void finish() {
    std::ranges::stable_sort(trace_.events, {}, &TraceEvent::time_ns);
    trace_.complete = ended_;
    if (ended_) return;
    trace_.end_ns = trace_.machine.start_ns;
    for (const TraceEvent& event : trace_.events)
      trace_.end_ns = std::max(trace_.end_ns, event.time_ns + event.duration_ns);
  }

  const std::span<const std::byte> file_;
  std::size_t at_ = 0;
  std::size_t chunk_at_ = 0;
  bool ended_ = false;
  std::string error_;
  Trace trace_;
};

}  // namespace

bool begins_as_trace(std::span<const std::byte> file) {
  return file.size() >= trace_magic.size() &&
         std::memcmp(file.data(), trace_magic.data(), trace_magic.size()) == 0;
}

std::variant<Trace, TraceError> read_trace(std::span<const std::byte> file) {
  return Reader(file).read();
}

}  // namespace wherry::tool
