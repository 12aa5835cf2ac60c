// A linear system A x = b with b all ones, and the vectors that solving it takes, in memory of the chosen kind:
// Problem<OrdinaryArray> or Problem<wherry::managed_array>. The constructing thread assembles, that is, writes it all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cg_solver.h"
#include "csr.h"
#include "triplets.h"

namespace wherry::tool {

template <typename T>
using OrdinaryArray = std::vector<T>;

template <template <typename> class Array>
struct Problem {
  Array<std::uint64_t> offsets;
  Array<std::uint32_t> columns;
  Array<double> values;
  Array<double> b, inverse_diagonal, x, r, z, p, q;
  std::optional<std::size_t>
      bad_row;  // whose diagonal entry is absent or not positive: cannot be solved here

  explicit Problem(const Triplets& matrix)
      : offsets(std::size_t{matrix.rows} + 1),
        columns(matrix.entries.size()),
        values(matrix.entries.size()),
        b(matrix.rows),
        inverse_diagonal(matrix.rows),
        x(matrix.rows),
        r(matrix.rows),
        z(matrix.rows),
        p(matrix.rows),
        q(matrix.rows) {
    assemble(matrix, view_of(offsets), view_of(columns), view_of(values));
    for (double& value : view_of(b)) value = 1;
    bad_row = invert_diagonal(csr(), view_of(inverse_diagonal));
  }

  CsrView csr() const { return {b.size(), offsets.data(), columns.data(), values.data()}; }

  CgVectors vectors() {
    return {view_of(b), view_of(inverse_diagonal), view_of(x), view_of(r), view_of(z), view_of(p),
            view_of(q)};
  }

 private:
  template <typename T>
  static std::span<T> view_of(Array<T>& array) {
    return {array.data(), array.size()};
  }
};

}  // namespace wherry::tool
