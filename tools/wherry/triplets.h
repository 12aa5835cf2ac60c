// A sparse square matrix as a list of entries, in any order, with at most one entry for each place.
// Files and generators return it; assembly converts it to CSR.
#pragma once

#include <cstdint>
#include <vector>

namespace wherry::tool {

struct Triplet {
  std::uint32_t row = 0;
  std::uint32_t column = 0;
  double value = 0;
};

struct Triplets {
  std::uint32_t rows = 0;
  std::vector<Triplet> entries;
};

// -laplace(u) on an n x n grid with the 5-point stencil and zero boundary: n^2 rows, 4 on the
// diagonal, -1 beside it.
Triplets poisson_2d(std::uint32_t n);

}  // namespace wherry::tool
