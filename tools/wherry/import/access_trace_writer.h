// Writes accesses as a trace (trace/trace_chunks.h) that `wherry trace` and `wherry replay` read.
//
// Each page of an access becomes a fault of the processor, without a duration: only a replay knows
// which accesses fault under its policy. The trace also has the events of a run in which no page
// moves: a page is created where it is accessed first, and other processors map it there.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "import/access_source.h"
#include "trace/trace_bytes.h"

namespace wherry::importing {

struct ImportedMachine {
  std::string program;  // what the accesses are of, for reports
  std::string version;  // of the library
  int devices = 0;
  std::uint64_t capacity = 0;  // bytes of each device; 0: no limit
};

struct ImportedCounts {
  std::uint64_t accesses = 0;  // to single pages
  std::uint64_t pages = 0;     // different ones
  std::uint64_t ranges = 0;
};

// Receives the file piece by piece. Returns false if no more can be written.
using PutTrace = std::function<bool(const impl::TraceBytes&)>;

// Sorts the accesses by time. Requires: there is one, and each has a processor of the machine.
// Throws std::bad_alloc.
ImportedCounts write_access_trace(Accesses& accesses, const ImportedMachine& machine,
                                  const PutTrace& put);

}  // namespace wherry::importing
