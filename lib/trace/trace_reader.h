// A whole trace, read and checked: what a program recorded with WHERRY_TRACE, in order of time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "trace/trace_chunks.h"

namespace wherry::impl {

struct Trace {
  TraceMachine machine;
  std::vector<EventRecord> events;  // by when they began
  std::vector<TraceName> names;     // as they were given
  TraceDrops drops{};
  // Its program ended as programs do, and everything was written; else this is what there was up to
  // some moment: the program was killed, still runs, or the disk was full.
  bool complete = false;
  std::uint64_t end_ns = 0;  // when recording ended, or of an incomplete trace: its last event
};

// Why there is no trace: "at byte 120: ...", one line.
struct TraceError {
  std::string message;
};

// Whether the file may be a trace, by its first bytes.
bool begins_as_trace(std::span<const std::byte> file);

// `file`: all of its bytes. A file that breaks off is as good as one that ended where its last
// whole chunk does, from the first chunk on; anything else that is not as docs/trace-format.md says
// is an error. Throws std::bad_alloc. Any thread.
std::variant<Trace, TraceError> read_trace(std::span<const std::byte> file);

}  // namespace wherry::impl
