// All that a report on a trace shows. The trace may have any length: it is read twice, first to
// learn which times and addresses there are, then to count. Takes memory for fixed numbers of times
// and of rows of addresses, for each name, and 4 bytes for each page that the program used.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "address_rows.h"
#include "findings.h"
#include "memory_use.h"
#include "residency_map.h"
#include "time_bins.h"
#include "timelines.h"
#include "trace_stream.h"

namespace wherry::report {

struct TraceReport {
  // Makes a report whose counts are 0.
  TraceReport(tool::TraceAbout trace, const TimeBins& times, AddressRows addresses);
  TraceReport(const TraceReport&) = delete;
  TraceReport& operator=(const TraceReport&) = delete;

  tool::TraceAbout about;
  std::uint64_t events = 0;
  TimeBins bins;
  AddressRows rows;
  ResidencyMap residency;  // refers to `rows`
  Timelines timelines;
  MemoryUses::ByName memory;
  std::vector<Finding> findings;
};

// Begins to read the trace from its start.
using OpenTrace = std::function<tool::TraceStream::ReadBytes()>;

// Calls `open` twice. Returns one line with the reason if the file cannot be read as a trace.
// Throws std::bad_alloc, and what `open` and its result throw. Any thread.
std::variant<std::unique_ptr<const TraceReport>, std::string> make_report(const OpenTrace& open);

}  // namespace wherry::report
