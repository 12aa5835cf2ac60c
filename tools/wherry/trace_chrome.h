// A trace in the Trace Event Format, which Perfetto and chrome://tracing open: a process for each
// processor, in it rows for the kernels, for the faults of each thread, and for pages that come and
// go.
#pragma once

#include "output.h"
#include "trace/trace_reader.h"

namespace wherry::tool {

void write_chrome(const impl::Trace& trace, Output& output);

}  // namespace wherry::tool
