#include "csr.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace wherry::tool {

CsrMatrix assemble(const Triplets& matrix) {
  // Two counting sorts, by column and then by row, leave each row's columns ascending.
  const std::size_t count = matrix.entries.size();
  std::vector<std::uint64_t> next(std::size_t{matrix.rows} + 1);
  for (const Triplet& entry : matrix.entries) ++next[entry.column + std::size_t{1}];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::size_t> by_column(count);
  for (std::size_t i = 0; i < count; ++i) by_column[next[matrix.entries[i].column]++] = i;

  std::fill(next.begin(), next.end(), 0);
  for (const Triplet& entry : matrix.entries) ++next[entry.row + std::size_t{1}];
  std::partial_sum(next.begin(), next.end(), next.begin());
  CsrMatrix result{next, std::vector<std::uint32_t>(count), std::vector<double>(count)};
  for (const std::size_t i : by_column) {
    const Triplet& entry = matrix.entries[i];
    const std::uint64_t place = next[entry.row]++;
    result.columns[place] = entry.column;
    result.values[place] = entry.value;
  }
  return result;
}

std::optional<std::size_t> invert_diagonal(const CsrView& matrix, std::span<double> inverse) {
  for (std::size_t row = 0; row < matrix.rows; ++row) {
    const std::uint32_t* first = matrix.columns + matrix.offsets[row];
    const std::uint32_t* last = matrix.columns + matrix.offsets[row + 1];
    const std::uint32_t* found = std::lower_bound(first, last, row);
    const double diagonal =
        found != last && *found == row ? matrix.values[found - matrix.columns] : 0;
    if (!(diagonal > 0)) return row;
    inverse[row] = 1 / diagonal;
  }
  return std::nullopt;
}

// Not inlined, so that the host, the devices and the check run the same instructions with the same
// rounding.
[[gnu::noinline]] void multiply_rows(const CsrView& matrix, const double* x, double* y,
                                     std::size_t begin, std::size_t end) {
  for (std::size_t row = begin; row < end; ++row) {
    double sum = 0;
    for (std::uint64_t i = matrix.offsets[row]; i < matrix.offsets[row + 1]; ++i)
      sum += matrix.values[i] * x[matrix.columns[i]];
    y[row] = sum;
  }
}

double relative_residual(const CsrView& matrix, std::span<const double> b,
                         std::span<const double> x) {
  double residual_squared = 0;
  double b_squared = 0;
  for (std::size_t row = 0; row < matrix.rows; ++row) {
    double sum = b[row];
    double lost = 0;
    for (std::uint64_t i = matrix.offsets[row]; i < matrix.offsets[row + 1]; ++i) {
      const double term = -matrix.values[i] * x[matrix.columns[i]] - lost;
      const double next = sum + term;
      lost = (next - sum) - term;
      sum = next;
    }
    residual_squared += sum * sum;
    b_squared += b[row] * b[row];
  }
  return std::sqrt(residual_squared) / std::sqrt(b_squared);
}

std::vector<std::size_t> split_rows(const CsrView& matrix, std::size_t parts) {
  const std::uint64_t* const end = matrix.offsets + matrix.rows;
  std::vector<std::size_t> ends;
  for (std::size_t part = 1; part <= parts; ++part) {
    const std::uint64_t share = *end * part / parts;
    ends.push_back(
        static_cast<std::size_t>(std::lower_bound(matrix.offsets, end, share) - matrix.offsets));
  }
  return ends;
}

}  // namespace wherry::tool
