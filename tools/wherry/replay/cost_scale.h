// By how much operations took longer while a trace was recorded than during calibration. Other load
// makes a machine slower, for all policies alike.
#pragma once

#include "replay/cost_model.h"
#include "replay/timeline.h"

namespace wherry::replay {

// The median, over the migrations of recorded faults, of recorded time / cost. 1 if there are too
// few migrations.
double cost_scale(const Timeline& timeline, const CostModel& costs);

// All costs, multiplied by `scale`.
CostModel scaled(const CostModel& costs, double scale);

}  // namespace wherry::replay
