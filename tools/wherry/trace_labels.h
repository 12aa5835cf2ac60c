// What reports call the things of a trace: processors, kernels, and memory by the names that the
// program gave it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/trace_reader.h"

namespace wherry::tool {

// "host", "device 0"; of nobody: empty.
std::string processor_name(int index);

class TraceLabels {
 public:
  // `trace` outlives it.
  explicit TraceLabels(const impl::Trace& trace);

  // The name of the kernel of a launch, or of the memory of any other event at that moment; empty:
  // it has none. To be asked of each event in turn.
  std::string_view of(const impl::EventRecord& event);

 private:
  struct Range {
    std::uint64_t end = 0;
    std::string_view name;
  };

  // Nothing in [start, end) has a name any more.
  void forget(std::uint64_t start, std::uint64_t end);
  // The part of a range from `address` on becomes a range of its own.
  void split(std::uint64_t address);

  std::vector<const impl::TraceName*> names_;  // of ranges, by time
  std::size_t next_ = 0;                       // of those, the first that is not yet given
  std::map<std::uint64_t, Range> ranges_;      // by start; they do not overlap
  std::map<std::uint64_t, std::string> kernels_;
};

}  // namespace wherry::tool
