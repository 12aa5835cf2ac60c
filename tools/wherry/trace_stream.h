// Reads a trace chunk by chunk, so that a trace of any length needs the memory of one chunk. Checks
// the file and its chunks against docs/trace-format.md. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/trace_chunks.h"

namespace wherry::tool {

// What a trace says besides its events.
struct TraceAbout {
  impl::TraceMachine machine;
  std::optional<impl::TraceSettings> settings;  // traces of earlier versions have none
  std::vector<impl::TraceName> names;           // in the order in which they were given
  impl::TraceDrops drops{};
  // Whether the program ended normally and the trace is written completely. If false, the trace
  // ends at an earlier time: the program was killed, is still running, or the disk was full.
  bool complete = false;
  // when recording ended; in an incomplete trace, the end of its last event
  std::uint64_t end_ns = 0;
};

class TraceStream {
 public:
  // Fills the span and returns its size; returns less only at the end of the file.
  using ReadBytes = std::function<std::size_t(std::span<std::byte>)>;

  explicit TraceStream(ReadBytes read) : read_(std::move(read)) {}

  // Appends the events of the next chunk that has events, which are in no order. Returns false at
  // the end of the trace, or with an error(). A file that breaks off after its first chunk ends
  // with its last complete chunk; every other deviation from the format is an error. Throws
  // std::bad_alloc, and what ReadBytes throws.
  bool next(std::vector<impl::TraceEvent>& events);

  // Why the file cannot be read: "at byte 120: ...", one line. Empty if it can.
  const std::string& error() const { return error_; }
  // What was read so far; complete when next() has returned false.
  const TraceAbout& about() const { return about_; }
  TraceAbout take_about() { return std::move(about_); }

 private:
  bool refuse(std::string_view why);
  bool read_header();
  std::optional<impl::TraceChunk> next_chunk();
  bool take(impl::TraceChunk kind, std::vector<impl::TraceEvent>& events);
  void end();

  const ReadBytes read_;
  std::vector<std::byte> payload_;  // of the current chunk
  std::uint64_t at_ = 0;
  std::uint64_t chunk_at_ = 0;
  std::uint64_t last_end_ns_ = 0;  // of the events so far
  std::string error_;
  TraceAbout about_;
};

// The result reads these bytes, which must outlive it.
TraceStream::ReadBytes reader_of(std::span<const std::byte> file);

// Whether the file's first bytes identify it as a trace.
bool begins_as_trace(std::span<const std::byte> file);

}  // namespace wherry::tool
