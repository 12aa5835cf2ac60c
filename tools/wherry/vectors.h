// The vectors of a solve: Vectors<OrdinaryArray>, or Vectors<wherry::managed_array> in managed
// memory. All elements of b are 1. The constructing thread writes b and the inverse diagonal.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "cg_solver.h"

namespace wherry::tool {

template <typename T>
using OrdinaryArray = std::vector<T>;

template <template <typename> class Array>
struct Vectors {
  Array<double> b, inverse_diagonal, x, r, z, p, q;

  explicit Vectors(std::span<const double> inverse)
      : b(inverse.size()),
        inverse_diagonal(inverse.size()),
        x(inverse.size()),
        r(inverse.size()),
        z(inverse.size()),
        p(inverse.size()),
        q(inverse.size()) {
    std::fill(b.begin(), b.end(), 1.0);
    std::copy(inverse.begin(), inverse.end(), inverse_diagonal.begin());
  }

  CgVectors spans() {
    return {all(b), all(inverse_diagonal), all(x), all(r), all(z), all(p), all(q)};
  }

 private:
  static std::span<double> all(Array<double>& array) { return {array.data(), array.size()}; }
};

}  // namespace wherry::tool
