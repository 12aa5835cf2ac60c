// Traces as files.
#pragma once

#include <string>
#include <variant>

#include "trace/trace_reader.h"

namespace wherry::tool {

// The trace that the file holds. A string: one line that says why there is none. Throws
// std::bad_alloc.
std::variant<impl::Trace, std::string> load_trace(const std::string& path);

// How a trace ends, found out without reading its events.
enum class TraceEnding {
  complete,        // the program ended as programs do
  between_chunks,  // the program ended otherwise, or still runs
  within_chunk,    // the file could not be written any more, or its writer was killed meanwhile
  unknown,         // the file cannot be read, or is no trace
};
TraceEnding how_it_ends(const std::string& path);

}  // namespace wherry::tool
