// The names of processors, kernels and memory in reports. The program names its memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "range_names.h"
#include "trace_stream.h"

namespace wherry::tool {

// "host", "device 0"; empty for a negative index.
std::string processor_name(int index);

class TraceLabels {
 public:
  // `trace` must outlive this object.
  explicit TraceLabels(const TraceAbout& trace);

  // The name of a launch's kernel, the text of a mark, or the name of the event's memory at that
  // time; empty if there is none.
  // To be called for each event, in order.
  std::string_view of(const impl::TraceEvent& event);

 private:
  std::vector<const impl::TraceName*> names_;  // names of ranges, by time
  std::size_t next_ = 0;                       // the first of names_ that is not in ranges_ yet
  RangeNames ranges_;                          // at the time of the last event
  std::map<std::uint64_t, std::string> kernels_;
  std::map<std::uint64_t, std::string_view> marks_;
};

}  // namespace wherry::tool
