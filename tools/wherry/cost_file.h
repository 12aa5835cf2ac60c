// The cost file of this machine: `wherry calibrate` writes it, and `wherry replay` reads it.
#pragma once

#include <string>
#include <variant>

#include "replay/cost_model.h"

namespace wherry::tool {

// $XDG_CACHE_HOME/wherry/cost.json, or ~/.cache/wherry/cost.json. Empty if there is no home
// directory.
std::string usual_cost_file();
bool exists(const std::string& cost_file);

// A string: one line that says what is wrong, and what to do.
std::variant<replay::CostModel, std::string> load_costs(const std::string& path);
// Returns why save_costs() cannot write the file, if that can be known in advance; otherwise empty.
std::string why_not_saved(const std::string& path);
// Replaces the file as a whole, or not at all. Returns an empty string, or one line with the error.
std::string save_costs(const replay::CostModel& costs, const std::string& path);

}  // namespace wherry::tool
