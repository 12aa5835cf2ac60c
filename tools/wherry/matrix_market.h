// Reads sparse matrices from Matrix Market files: coordinate, real or integer, general or
// symmetric. Every malformed file ends in a line number and a reason; no input makes it crash or
// allocate more than it has read.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <variant>

#include "triplets.h"

namespace wherry::tool {

struct MatrixMarketError {
  std::uint64_t line = 0;  // 0: the file as a whole (cannot be opened or read)
  std::string reason;
};

using MatrixMarketResult = std::variant<Triplets, MatrixMarketError>;

// A square matrix with every entry present: symmetric files are expanded.
MatrixMarketResult read_matrix_market(const std::string& path);

// The same from an open stream.
MatrixMarketResult read_matrix_market(std::FILE* stream);

// "FILE:LINE: reason", or "FILE: reason" where no line is to blame.
std::string describe(const std::string& path, const MatrixMarketError& error);

}  // namespace wherry::tool
