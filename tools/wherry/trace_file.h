// Traces as files.
#pragma once

#include <string>
#include <variant>

#include "events/trace_reader.h"

namespace wherry::tool {

// The trace that the file holds. A string: one line that says why there is none. Throws std::bad_alloc.
std::variant<impl::Trace, std::string> load_trace(const std::string& path);

}  // namespace wherry::tool
