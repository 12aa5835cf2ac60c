// Measures the duration of the steps of a fault on this machine, by causing such faults.
#pragma once

#include <string>
#include <variant>

#include "replay/cost_model.h"

namespace wherry::tool {

// Measures in separate processes, which takes seconds. Returns the costs, or one line with the
// error. Throws std::system_error, std::bad_alloc. Requires: the library has not been started.
std::variant<replay::CostModel, std::string> calibrate();

}  // namespace wherry::tool
