// The settings of a recorded program, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "trace_stream.h"

namespace wherry::tool {

// Returns null if the trace has none.
nlohmann::ordered_json settings_json(const TraceAbout& trace);

}  // namespace wherry::tool
