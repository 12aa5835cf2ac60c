// Compressed sparse rows: assembly and the matrix-vector product. Solves in ordinary and in managed
// memory run the same code here, so their results can be compared bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "triplets.h"

namespace wherry::tool {

// The arrays of one matrix. Trivially copyable, because kernels capture it. Row r has the entries
// [offsets[r], offsets[r + 1]), with ascending columns.
struct CsrView {
  std::size_t rows = 0;
  const std::uint64_t* offsets = nullptr;
  const std::uint32_t* columns = nullptr;
  const double* values = nullptr;
};

// A matrix in ordinary memory.
struct CsrMatrix {
  std::vector<std::uint64_t> offsets;  // rows + 1 elements
  std::vector<std::uint32_t> columns;
  std::vector<double> values;

  CsrView view() const {
    return {offsets.size() - 1, offsets.data(), columns.data(), values.data()};
  }
};

CsrMatrix assemble(const Triplets& matrix);

// Writes 1 / diagonal. Returns the first row (counted from 0) whose diagonal entry is missing or
// not positive.
std::optional<std::size_t> invert_diagonal(const CsrView& matrix, std::span<double> inverse);

// y[r] = (A x)[r] for the rows [begin, end).
void multiply_rows(const CsrView& matrix, const double* x, double* y, std::size_t begin,
                   std::size_t end);

// |b - A x| / |b|, with compensated sums in each row.
double relative_residual(const CsrView& matrix, std::span<const double> b,
                         std::span<const double> x);

// Divides the rows into `parts` ranges with about equal numbers of entries. Returns their ends.
std::vector<std::size_t> split_rows(const CsrView& matrix, std::size_t parts);

}  // namespace wherry::tool
