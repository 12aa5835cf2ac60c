// What a trace amounts to, for a person: counts, bytes and times by kind and cause, between
// processors, and for named memory.
#pragma once

#include "output.h"
#include "trace/trace_reader.h"

namespace wherry::tool {

void write_summary(const impl::Trace& trace, Output& output);

}  // namespace wherry::tool
