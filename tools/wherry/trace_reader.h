// A whole trace, parsed and checked: what a program recorded with WHERRY_TRACE, ordered by time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "trace_stream.h"

namespace wherry::tool {

struct Trace : TraceAbout {
  std::vector<impl::TraceEvent> events;  // ordered by start time
};

// Why the file could not be read: "at byte 120: ...", one line.
struct TraceError {
  std::string message;
};

// `file`: all of its bytes. A file that breaks off after its first chunk is read up to its last
// complete chunk. Every other deviation from docs/trace-format.md is an error. Throws
// std::bad_alloc. Any thread.
std::variant<Trace, TraceError> read_trace(std::span<const std::byte> file);
// Reads the bytes that `read` returns.
std::variant<Trace, TraceError> read_trace(const TraceStream::ReadBytes& read);

}  // namespace wherry::tool
