// What `wherry top` shows of a program: text for people, and JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program_status.h"

namespace wherry::tool {

// The status that the program had when the library started: nothing had happened yet.
ProgramStatus at_start(const ProgramStatus& status);

// Rates between two moments, the pools, and the memory where most happened: lines of at most
// `columns` bytes, at most `lines` of them. Requires: `before` is of the same program, and earlier.
std::vector<std::string> to_lines(const ProgramStatus& before, const ProgramStatus& now,
                                  std::size_t columns, std::size_t lines);

// The counters since the start.
nlohmann::ordered_json to_json(const ProgramStatus& status);

}  // namespace wherry::tool
