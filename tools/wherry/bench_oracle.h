// How long a workload would take if the future were known: the baseline for policies in `wherry
// bench policies`.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "replay/cost_model.h"
#include "workloads.h"

namespace wherry::tool {

// Returns this machine's costs, or one line with the error. If there is no cost file, measures the
// costs and saves them. Throws as calibrate() does.
std::variant<replay::CostModel, std::string> costs_here();

// Records the workload under the policy in a process of its own, and replays the trace with the
// oracle. Returns the replayed time divided by the recorded time, or one line with the error.
// `kept_as`: the file for the trace; if empty, no trace is kept. Throws std::system_error,
// std::bad_alloc. Requires: the library has not been started.
std::variant<double, std::string> oracle_share(const Workload& workload, const std::string& policy,
                                               std::uint64_t seed, const replay::CostModel& costs,
                                               const std::string& kept_as);

}  // namespace wherry::tool
