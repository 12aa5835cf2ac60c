// The names of event kinds, accesses, details and kinds of processors in reports and in
// docs/trace-format.md. The library itself names the causes (trace/event.h).
#pragma once

#include <string_view>

#include "trace/event.h"
#include "trace/trace_chunks.h"

namespace wherry::tool {

std::string_view to_string(impl::EventKind kind);
std::string_view to_string(impl::EventAccess access);
std::string_view to_string(impl::TraceProcessor::Kind kind);
// The name of the event's detail; empty if the kind has none.
std::string_view detail_name(const impl::TraceEvent& event);

}  // namespace wherry::tool
