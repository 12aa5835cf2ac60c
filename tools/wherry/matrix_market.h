// Reads sparse matrices from Matrix Market files: coordinate, real or integer, general or
// symmetric. For a malformed file it returns a line number and a reason. No input can make it
// crash, or allocate more memory than in proportion to what it has read.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <variant>

#include "triplets.h"

namespace wherry::tool {

struct MatrixMarketError {
  std::uint64_t line = 0;  // 0: the error concerns the whole file (it cannot be opened or read)
  std::string reason;
};

using MatrixMarketResult = std::variant<Triplets, MatrixMarketError>;

// Returns a square matrix; symmetric files are expanded to all entries.
MatrixMarketResult read_matrix_market(const std::string& path);

// The same from an open stream.
MatrixMarketResult read_matrix_market(std::FILE* stream);

// "FILE:LINE: reason", or "FILE: reason" if the error concerns the whole file.
std::string describe(const std::string& path, const MatrixMarketError& error);

}  // namespace wherry::tool
