// Reads sparse matrices from Matrix Market files: coordinate, real or integer, general or
// symmetric. For a malformed file it returns a line number and a reason. No input can make it
// crash, or allocate more memory than in proportion to what it has read.
#pragma once

#include <cstdio>
#include <string>
#include <variant>

#include "text_lines.h"
#include "triplets.h"

namespace wherry::tool {

using MatrixMarketResult = std::variant<Triplets, TextError>;

// Returns a square matrix; symmetric files are expanded to all entries.
MatrixMarketResult read_matrix_market(const std::string& path);

// Reads from an open stream.
MatrixMarketResult read_matrix_market(std::FILE* stream);

}  // namespace wherry::tool
