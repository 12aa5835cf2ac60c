// Measures the duration of the steps of a fault on this machine, by causing such faults.
#pragma once

#include <string>
#include <variant>

#include "replay/cost_model.h"

namespace wherry::tool {

// Runs in separate processes, and takes seconds. A string: one line that says why it cannot
// measure. Throws std::system_error, std::bad_alloc. Requires: the library has not been started.
std::variant<replay::CostModel, std::string> calibrate();

}  // namespace wherry::tool
