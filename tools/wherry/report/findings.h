// What the use of memory in a trace suggests: which memory costs the program time, why, and what to
// try. Looks only at what happened, not at the policy that did it. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memory_use.h"
#include "trace/trace_chunks.h"

namespace wherry::report {

// What a finding proposes.
enum class Proposal : std::uint8_t {
  read_mostly,         // advise it
  preferred_location,  // advise it
  less_sharing,        // more work per launch: the advice was given and did not suffice
  prefetch,
  accessed_by,  // advise it
  capacity,     // of a device, or less memory in use at a time
  pin,          // the memory while system calls or other processes use it
};
// "read-mostly", ...
std::string_view to_string(Proposal proposal);

struct Finding {
  Proposal proposal{};
  std::string memory;         // its name
  int processor = -1;         // which the proposal concerns; negative: none
  std::string observation;    // one sentence for people, without the full stop
  std::string evidence;       // the numbers behind it
  std::string attempt;        // what to try
  std::uint64_t cost_ns = 0;  // the time that threads waited for the faults in question
  std::uint64_t pages = 0;    // that moved for this reason; pin: that did not move
};

// In the order of their costs, the highest first.
std::vector<Finding> find(const MemoryUses::ByName& uses,
                          std::span<const impl::TraceProcessor> processors,
                          std::uint64_t page_bytes);

}  // namespace wherry::report
