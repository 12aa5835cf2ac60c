// The settings of a recorded program as text: the head of each report on its trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "trace_stream.h"

namespace wherry::tool {

// The command line, the policy, the version of the library, the machine and the WHERRY_ variables,
// a line each; then a line if the trace breaks off. `events`: how many the trace has.
std::string trace_head(const TraceAbout& trace, std::uint64_t events);

// Whether this policy, which may have parameters, leaves pages where they are and maps them there:
// further accesses to them do not fault, and are in no trace. Nullopt if it is not built in.
std::optional<bool> leaves_pages(const std::string& policy);

}  // namespace wherry::tool
