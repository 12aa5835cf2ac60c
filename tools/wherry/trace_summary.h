// What a trace amounts to, for a person: counts, bytes and times by kind and cause, between
// processors, and for named memory.
#pragma once

#include "events/trace_reader.h"
#include "output.h"

namespace wherry::tool {

void write_summary(const impl::Trace& trace, Output& output);

}  // namespace wherry::tool
