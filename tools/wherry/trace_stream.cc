#include "trace_stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "trace_payloads.h"
#include "trace_source.h"

namespace wherry::tool {

using namespace impl;

bool TraceStream::next(std::vector<TraceEvent>& events) {
  if (!error_.empty() || (at_ == 0 && !read_header())) return false;
  while (const auto kind = next_chunk()) {
    const std::size_t before = events.size();
    if (!take(*kind, events)) return refuse("the chunk's content does not match its kind");
    for (std::size_t i = before; i < events.size(); ++i)
      last_end_ns_ = std::max(last_end_ns_, events[i].time_ns + events[i].duration_ns);
    if (events.size() > before) return true;
  }
  if (error_.empty()) end();
  return false;
}

bool TraceStream::refuse(std::string_view why) {
  error_ = fmt::format("at byte {}: {}", chunk_at_, why);
  return false;
}

bool TraceStream::read_header() {
  std::array<std::byte, trace_header_bytes> header;
  const std::size_t got = read_(header);
  at_ = header.size();
  if (!begins_as_trace(std::span(header).first(got))) {
    error_ = "the file is not a Wherry trace";
  } else if (got < header.size()) {
    error_ = "the file breaks off in its header";
  } else if (const std::uint32_t version =
                 TraceSource(std::span(header).subspan(trace_magic.size())).take_word();
             version != trace_version) {
    error_ = fmt::format("the trace has version {}; this program reads version {}", version,
                         trace_version);
  }
  return error_.empty();
}

// Returns nullopt if no complete chunk is left, or, with error_ set, if the next chunk is invalid.
std::optional<TraceChunk> TraceStream::next_chunk() {
  chunk_at_ = at_;
  std::array<std::byte, chunk_header_bytes> header;
  const std::size_t got = read_(header);
  if (got > 0 && about_.complete) refuse("there is data after the end of the trace");
  if (got < header.size() || about_.complete) return std::nullopt;
  TraceSource source(header);
  const std::uint32_t kind = source.take_word();
  const std::uint32_t bytes = source.take_word();
  const std::uint32_t sum = source.take_word();
  if (bytes > chunk_payload_max) {
    refuse("the chunk is too long");
    return std::nullopt;
  }
  payload_.resize(bytes);
  if (read_(payload_) < bytes) return std::nullopt;
  if (crc32(payload_, crc32(std::span(header).first(8))) != sum) {
    refuse("the checksum does not match the chunk");
    return std::nullopt;
  }
  at_ += header.size() + bytes;
  // This program has no name for a kind that a later version of the format added.
  return static_cast<TraceChunk>(std::min(kind, std::uint32_t{UINT8_MAX}));
}

// Returns false if the chunk is malformed, or if its kind may not occur here.
bool TraceStream::take(TraceChunk kind, std::vector<TraceEvent>& events) {
  const bool first = about_.machine.processors.empty();
  if (first != (kind == TraceChunk::machine)) return false;
  switch (kind) {
    case TraceChunk::machine: {
      auto machine = parse_machine(payload_);
      if (machine) about_.machine = std::move(*machine);
      return machine.has_value();
    }
    case TraceChunk::settings: {
      if (about_.settings) return false;
      about_.settings = parse_settings(payload_);
      return about_.settings.has_value();
    }
    case TraceChunk::events:
      return parse_events(payload_, about_.machine.processors.size(), events);
    case TraceChunk::names:
      return parse_names(payload_, about_.names);
    case TraceChunk::drops: {
      const auto drops = parse_drops(payload_);
      if (drops) about_.drops = *drops;
      return drops.has_value();
    }
    case TraceChunk::end: {
      const auto end = parse_end(payload_);
      if (end) about_.end_ns = *end;
      about_.complete = end.has_value();
      return about_.complete;
    }
  }
  return true;  // A kind that a later version of the format added: this reader skips it.
}

void TraceStream::end() {
  if (about_.machine.processors.empty()) {
    refuse("the file breaks off before its first chunk ends");
    return;
  }
  if (!about_.complete) about_.end_ns = std::max(about_.machine.start_ns, last_end_ns_);
}

TraceStream::ReadBytes reader_of(std::span<const std::byte> file) {
  return [left = file](std::span<std::byte> bytes) mutable {
    const std::size_t count = std::min(bytes.size(), left.size());
    std::copy_n(left.begin(), count, bytes.begin());
    left = left.subspan(count);
    return count;
  };
}

bool begins_as_trace(std::span<const std::byte> file) {
  return file.size() >= trace_magic.size() &&
         std::memcmp(file.data(), trace_magic.data(), trace_magic.size()) == 0;
}

}  // namespace wherry::tool
