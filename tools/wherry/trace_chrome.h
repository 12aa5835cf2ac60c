// A trace in the Trace Event Format, which Perfetto and chrome://tracing read. Each processor is a
// process, with rows for its kernels, for the faults of each thread, and for page moves.
#pragma once

#include "output.h"
#include "trace_reader.h"

namespace wherry::tool {

void write_chrome(const Trace& trace, Output& output);

}  // namespace wherry::tool
