// What a program ran under, for other programs.
#pragma once

#include <nlohmann/json.hpp>

#include "trace_stream.h"

namespace wherry::tool {

// Null: the trace has no settings.
nlohmann::ordered_json settings_json(const TraceAbout& trace);

}  // namespace wherry::tool
