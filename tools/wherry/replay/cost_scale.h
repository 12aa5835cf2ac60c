// How much longer things took while a trace was recorded than when costs were measured: a machine
// that does something else meanwhile is a slower one, for all policies alike.
#pragma once

#include "replay/cost_model.h"
#include "replay/timeline.h"

namespace wherry::replay {

// By the migrations of recorded faults: the median of what each took, by what it costs. 1: there
// are too few to tell.
double cost_scale(const Timeline& timeline, const CostModel& costs);

// Everything takes so many times as long.
CostModel scaled(const CostModel& costs, double scale);

}  // namespace wherry::replay
