// All events of a trace, for other programs: as lines, or as one JSON object.
#pragma once

#include "output.h"
#include "trace_reader.h"

namespace wherry::tool {

// A header line, then one line for each event, in order of time; RFC 4180.
void write_csv(const Trace& trace, Output& output);
// One object: the machine, the names, the dropped events, and the events in order of time.
void write_json(const Trace& trace, Output& output);

}  // namespace wherry::tool
