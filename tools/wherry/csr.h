// Compressed sparse rows: assembly and the product. Ordinary and managed solves run the very same
// code here, so their results can be compared bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "triplets.h"

namespace wherry::tool {

// The arrays of one matrix, trivially copyable: this is what a kernel captures. Row r has the
// entries [offsets[r], offsets[r + 1]), columns ascending.
struct CsrView {
  std::size_t rows = 0;
  const std::uint64_t* offsets = nullptr;
  const std::uint32_t* columns = nullptr;
  const double* values = nullptr;
};

// A matrix on ordinary memory.
struct CsrMatrix {
  std::vector<std::uint64_t> offsets;  // one more than rows
  std::vector<std::uint32_t> columns;
  std::vector<double> values;

  CsrView view() const {
    return {offsets.size() - 1, offsets.data(), columns.data(), values.data()};
  }
};

CsrMatrix assemble(const Triplets& matrix);

// Writes 1 / diagonal. Returns the first row (from 0) whose diagonal entry is absent or not
// positive.
std::optional<std::size_t> invert_diagonal(const CsrView& matrix, std::span<double> inverse);

// y[r] = (A x)[r] for the rows [begin, end).
void multiply_rows(const CsrView& matrix, const double* x, double* y, std::size_t begin,
                   std::size_t end);

// |b - A x| / |b| with compensated sums in each row.
double relative_residual(const CsrView& matrix, std::span<const double> b,
                         std::span<const double> x);

// Where each of `parts` row ranges ends, the last one at rows: about equal shares of the entries.
std::vector<std::size_t> split_rows(const CsrView& matrix, std::size_t parts);

}  // namespace wherry::tool
