// Accesses in a table: one line each, with commas between the columns that the first line names
// (docs/replay.md). This is the format for tools that have no reader of their own here.
#pragma once

#include "import/access_source.h"

namespace wherry::importing {

SourceResult read_csv_accesses(std::FILE* stream, const SourceSettings& settings);

}  // namespace wherry::importing
