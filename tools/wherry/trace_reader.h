// A whole trace, parsed and checked: what a program recorded with WHERRY_TRACE, ordered by time.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "trace/trace_chunks.h"

namespace wherry::tool {

struct Trace {
  impl::TraceMachine machine;
  std::optional<impl::TraceSettings> settings;  // traces of earlier versions have none
  std::vector<impl::TraceEvent> events;         // ordered by start time
  std::vector<impl::TraceName> names;           // in the order in which they were given
  impl::TraceDrops drops{};
  // Whether the program ended normally and the trace is written completely. If false, the trace
  // ends at an earlier time: the program was killed, is still running, or the disk was full.
  bool complete = false;
  // when recording ended; of an incomplete trace: the end of its last event
  std::uint64_t end_ns = 0;
};

// Why the file could not be read: "at byte 120: ...", one line.
struct TraceError {
  std::string message;
};

// Whether the file's first bytes identify it as a trace.
bool begins_as_trace(std::span<const std::byte> file);

// `file`: all of its bytes. A file that breaks off after its first chunk is read up to its last
// complete chunk. Every other deviation from docs/trace-format.md is an error. Throws
// std::bad_alloc. Any thread.
std::variant<Trace, TraceError> read_trace(std::span<const std::byte> file);

}  // namespace wherry::tool
