#include "trace_reader.h"

#include <algorithm>

namespace wherry::tool {

std::variant<Trace, TraceError> read_trace(std::span<const std::byte> file) {
  return read_trace(reader_of(file));
}

std::variant<Trace, TraceError> read_trace(const TraceStream::ReadBytes& read) {
  TraceStream stream(read);
  Trace trace;
  while (stream.next(trace.events)) {
  }
  if (!stream.error().empty()) return TraceError{stream.error()};
  static_cast<TraceAbout&>(trace) = stream.take_about();
  std::ranges::stable_sort(trace.events, {}, &impl::TraceEvent::time_ns);
  return trace;
}

}  // namespace wherry::tool
