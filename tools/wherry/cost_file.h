// Where the costs of this machine are kept: what `wherry calibrate` writes, and `wherry replay`
// reads.
#pragma once

#include <string>
#include <variant>

#include "replay/cost_model.h"

namespace wherry::tool {

// $XDG_CACHE_HOME/wherry/cost.json, or ~/.cache/wherry/cost.json; empty: there is no home.
std::string usual_cost_file();
bool exists(const std::string& cost_file);

// A string: one line that says what is wrong, and what to do.
std::variant<replay::CostModel, std::string> load_costs(const std::string& path);
// Why save_costs() cannot write there, as far as that can be known before; empty: it can.
std::string why_not_saved(const std::string& path);
// As a whole or not at all, with the folders above it. Empty: it is there; else one line that says
// what is wrong.
std::string save_costs(const replay::CostModel& costs, const std::string& path);

}  // namespace wherry::tool
