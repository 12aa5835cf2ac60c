// The cost file of this machine: `wherry calibrate` writes it (with save_kept() of kept_file.h),
// and `wherry replay` reads it.
#pragma once

#include <string>
#include <variant>

#include "replay/cost_model.h"

namespace wherry::tool {

// $XDG_CACHE_HOME/wherry/cost.json, or ~/.cache/wherry/cost.json. Empty if no home directory is
// set.
std::string usual_cost_file();
bool exists(const std::string& cost_file);

// Returns the costs, or one line that says what is wrong and what to do.
std::variant<replay::CostModel, std::string> load_costs(const std::string& path);

}  // namespace wherry::tool
