// Reads trace files.
#pragma once

#include <string>
#include <variant>

#include "trace_reader.h"

namespace wherry::tool {

// Opens the file. Calls of the result read it from start to end and show the progress on a
// terminal. Opening and reading throw std::system_error, whose text is one line that names the
// file.
TraceStream::ReadBytes read_file(const std::string& path);

// Returns the trace in the file, or one line with the error. Throws std::bad_alloc.
std::variant<Trace, std::string> load_trace(const std::string& path);

// How a trace ends, determined without reading its events.
enum class TraceEnding {
  complete,        // the program exited normally
  between_chunks,  // the program ended in another way, or still runs
  within_chunk,    // the file could not be written any more, or its writer was killed meanwhile
  unknown,         // the file cannot be read, or is not a trace
};
TraceEnding how_it_ends(const std::string& path);

}  // namespace wherry::tool
