// How long a workload would take if the future were known: what `wherry bench policies` holds
// policies against.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "replay/cost_model.h"
#include "workloads.h"

namespace wherry::tool {

// This machine's costs, which are measured, and kept, if there are none. A string: one line that
// says what is wrong. As calibrate().
std::variant<replay::CostModel, std::string> costs_here();

// Records the workload under the policy, in a process of its own, and replays it as if the future
// had been known: which share of the recorded time that takes. A string: one line that says why
// that cannot be done. Throws std::system_error, std::bad_alloc. Requires: the library has not been
// started.
std::variant<double, std::string> oracle_share(const Workload& workload, const std::string& policy,
                                               std::uint64_t seed, const replay::CostModel& costs);

}  // namespace wherry::tool
