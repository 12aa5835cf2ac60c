// Conjugate gradients with a Jacobi preconditioner, in double precision, on vectors that somebody
// else owns. Everything but the product runs in the caller, in a fixed order, so equal products
// give equal bits.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace wherry::tool {

// All of one length. The caller fills b and inverse_diagonal; x holds the solution afterwards.
struct CgVectors {
  std::span<const double> b;
  std::span<const double> inverse_diagonal;
  std::span<double> x;
  std::span<double> r;  // residual
  std::span<double> z;  // preconditioned residual
  std::span<double> p;  // search direction: what is multiplied
  std::span<double> q;  // A p: what the product gives
};

enum class CgStatus {
  converged,
  too_many_iterations,
  not_positive_definite,  // p.Ap <= 0, or a value that is not finite
  stagnated,              // rounding keeps b - A x above the tolerance
};

struct CgResult {
  CgStatus status = CgStatus::converged;
  std::size_t iterations = 0;
  double relative_residual = 0;  // as the solver sees it at its end
};

// Starts from x = 0. `multiply` computes q = A p. Has converged when b - A x, computed afresh, is
// at most `tolerance` * |b|: the residual that CG carries along drifts from it, and where it does,
// CG starts again from x.
CgResult solve_cg(const CgVectors& vectors, const std::function<void()>& multiply, double tolerance,
                  std::size_t iterations_max);

}  // namespace wherry::tool
