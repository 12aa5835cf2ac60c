// The names of processors, kernels and memory in reports; those of memory are given by the program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace_reader.h"

namespace wherry::tool {

// "host", "device 0"; empty for a negative index.
std::string processor_name(int index);

class TraceLabels {
 public:
  // `trace` must outlive this object.
  explicit TraceLabels(const Trace& trace);

  // The name of a launch's kernel, the text of a mark, or the name of the event's memory at that
  // time; empty if there is none.
  // To be called for each event, in order.
  std::string_view of(const impl::TraceEvent& event);

 private:
  struct Range {
    std::uint64_t end = 0;
    std::string_view name;
  };

  // Removes the names from [start, end).
  void forget(std::uint64_t start, std::uint64_t end);
  // Splits the range that contains `address` into two.
  void split(std::uint64_t address);

  std::vector<const impl::TraceName*> names_;  // names of ranges, by time
  std::size_t next_ = 0;                       // the first of these that is not in ranges_ yet
  std::map<std::uint64_t, Range> ranges_;      // by start address; they do not overlap
  std::map<std::uint64_t, std::string> kernels_;
  std::map<std::uint64_t, std::string_view> marks_;
};

}  // namespace wherry::tool
