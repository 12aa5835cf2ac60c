// What a program ran under, in words: the head of each report on its trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "trace_stream.h"

namespace wherry::tool {

// The command line, the policy, the version of the library, the machine and the WHERRY_ variables,
// a line each; then, where it is so, that the trace breaks off. `events`: how many it has.
std::string trace_head(const TraceAbout& trace, std::uint64_t events);

// Whether this policy, which may have parameters, leaves pages mapped where they are: further
// accesses to them do not fault, and are in no trace. Nullopt: it is no built-in policy.
std::optional<bool> leaves_pages(const std::string& policy);

}  // namespace wherry::tool
