// Conjugate gradients with a Jacobi preconditioner, in double precision, on vectors of the caller.
// Everything but the product runs in the calling thread, in a fixed order, so equal products give
// bitwise equal results.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace wherry::tool {

// All spans have the same length. The caller fills b and inverse_diagonal; afterwards x holds the
// solution.
struct CgVectors {
  std::span<const double> b;
  std::span<const double> inverse_diagonal;
  std::span<double> x;
  std::span<double> r;  // residual
  std::span<double> z;  // preconditioned residual
  std::span<double> p;  // search direction, the input of the product
  std::span<double> q;  // A p, the output of the product
};

enum class CgStatus {
  converged,
  too_many_iterations,
  not_positive_definite,  // p.Ap <= 0, or a value that is not finite
  stagnated,              // rounding errors keep |b - A x| above the tolerance
};

struct CgResult {
  CgStatus status = CgStatus::converged;
  std::size_t iterations = 0;
  double relative_residual = 0;  // as computed by the solver at its end
};

// Starts from x = 0. multiply() computes q = A p. Converged means that a newly computed |b - A x|
// is at most `tolerance` * |b|. The residual that CG updates can drift from the true one; then CG
// starts again from x.
CgResult solve_cg(const CgVectors& vectors, const std::function<void()>& multiply, double tolerance,
                  std::size_t iterations_max);

}  // namespace wherry::tool
