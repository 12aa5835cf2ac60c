// Warnings about policies that a recording cannot predict because it lacks accesses.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "replay/machine.h"
#include "trace_reader.h"

namespace wherry::tool {

struct ReplayedPolicy {
  std::string name;
  replay::MachineCounts counts;
  std::optional<bool> leaves_pages;  // from leaves_pages() of trace_head.h
};

// Writes a line to stderr for each reason for which faults and times of some of these policies are
// too low. `recorded`: the counts of the recorded run.
void warn_of_hidden_accesses(const Trace& trace, const replay::MachineCounts& recorded,
                             std::span<const ReplayedPolicy> policies);

}  // namespace wherry::tool
