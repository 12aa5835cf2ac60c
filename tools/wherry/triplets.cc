#include "triplets.h"

namespace wherry::tool {

Triplets poisson_2d(std::uint32_t n) {
  Triplets matrix;
  matrix.rows = n * n;
  matrix.entries.reserve(std::size_t{5} * n * n);
  for (std::uint32_t y = 0; y < n; ++y) {
    for (std::uint32_t x = 0; x < n; ++x) {
      const std::uint32_t row = y * n + x;
      const auto add = [&](std::uint32_t column, double value) {
        matrix.entries.push_back({row, column, value});
      };
      if (y > 0) add(row - n, -1);
      if (x > 0) add(row - 1, -1);
      add(row, 4);
      if (x + 1 < n) add(row + 1, -1);
      if (y + 1 < n) add(row + n, -1);
    }
  }
  return matrix;
}

}  // namespace wherry::tool
