// How long a workload would take if the future were known: what `wherry bench policies` holds policies against.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "replay/cost_model.h"
#include "workloads.h"

namespace wherry::tool {

// This machine's costs, which are measured, and kept, if there are none. A string: one line that says what is wrong. As calibrate().
std::variant<replay::CostModel, std::string> costs_here();

// Records the workload in a process of its own, and replays it. A string: one line that says why that cannot be done. Throws
// std::system_error, std::bad_alloc. Requires: the library has not been started.
std::variant<double, std::string> oracle_seconds(const Workload& workload, std::uint64_t seed,
                                                 const replay::CostModel& costs);

}  // namespace wherry::tool
