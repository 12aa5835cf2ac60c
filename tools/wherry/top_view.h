// What `wherry top` shows of a program: text for people, and JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program_status.h"

namespace wherry::tool {

// The program's status at the library's start: all counters are 0.
ProgramStatus at_start(const ProgramStatus& status);

// At most `lines` lines of at most `columns` bytes: rates between two moments, the pools, and the
// memory where most happened. Requires: `before` is of the same program, and earlier.
std::vector<std::string> to_lines(const ProgramStatus& before, const ProgramStatus& now,
                                  std::size_t columns, std::size_t lines);

// The program's counters since its start.
nlohmann::ordered_json to_json(const ProgramStatus& status);

}  // namespace wherry::tool
