// A summary of a trace for people: counts, bytes and times by kind and cause, by pair of
// processors, and by named memory.
#pragma once

#include "output.h"
#include "trace_reader.h"

namespace wherry::tool {

void write_summary(const Trace& trace, Output& output);

}  // namespace wherry::tool
