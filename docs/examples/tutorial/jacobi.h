// What the steps of docs/tutorial.md have in common: the grid, one row of one step, and the result.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace jacobi {

// The grid has n rows of n values. The values at its edge stay what they are.
constexpr std::size_t n = 2048;
constexpr std::size_t values = n * n;
constexpr std::size_t first_row = 1;
constexpr std::size_t end_row = n - 1;
constexpr int steps = 40;

// A cold plate that is heated at some points.
inline void fill(double* grid, double* next, double* source) {
  for (std::size_t i = 0; i < values; ++i) {
    grid[i] = next[i] = 0;
    source[i] = i % 1000 == 0 ? 1 : 0;
  }
}

// Each value of the row becomes the mean of its four neighbours, plus its heat.
inline void relax_row(const double* grid, const double* source, double* next, std::size_t row) {
  const double* const here = grid + row * n;
  const double *const above = here - n, *const below = here + n;
  for (std::size_t i = 1; i + 1 < n; ++i)
    next[row * n + i] =
        0.25 * (here[i - 1] + here[i + 1] + above[i] + below[i]) + source[row * n + i];
}

// The largest change of a value of the row.
inline double change_of_row(const double* grid, const double* next, std::size_t row) {
  double largest = 0;
  for (std::size_t i = row * n; i < (row + 1) * n; ++i)
    largest = std::max(largest, std::abs(next[i] - grid[i]));
  return largest;
}

// The time since its construction.
class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

inline void print(double change, double seconds) {
  std::printf("%d steps, last change %.9f, %.3f s\n", steps, change, seconds);
}

}  // namespace jacobi
