// The data of a report's page, as JSON. The page's script (page/page.js) reads it.
#pragma once

#include <string>

#include "trace_report.h"

namespace wherry::report {

// One object, without the character '<', so that it can stand in a page. Bytes of names that are
// not UTF-8 are replaced. Throws std::bad_alloc. Any thread.
std::string to_json(const TraceReport& report);

}  // namespace wherry::report
