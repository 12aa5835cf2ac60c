// Measures what the steps of a fault take on this machine, by having them happen, through the
// library.
#pragma once

#include <string>
#include <variant>

#include "replay/cost_model.h"

namespace wherry::tool {

// In processes of its own. Takes seconds. A string: one line that says why it cannot be measured.
// Throws std::system_error, std::bad_alloc. Requires: the library has not been started.
std::variant<replay::CostModel, std::string> calibrate();

}  // namespace wherry::tool
