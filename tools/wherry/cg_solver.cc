#include "cg_solver.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace wherry::tool {
namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double norm(std::span<const double> a) {
  return std::sqrt(dot(a, a));
}

// y += factor * x
void add_scaled(std::span<double> y, double factor, std::span<const double> x) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += factor * x[i];
}

// y = x + factor * y
void scale_and_add(std::span<double> y, double factor, std::span<const double> x) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] + factor * y[i];
}

// z = M^-1 r; returns r.z
double precondition(const CgVectors& v) {
  for (std::size_t i = 0; i < v.z.size(); ++i) v.z[i] = v.inverse_diagonal[i] * v.r[i];
  return dot(v.r, v.z);
}

// r = b - A x, computed with p and q as temporary storage.
void residual_afresh(const CgVectors& v, const std::function<void()>& multiply) {
  std::copy(v.x.begin(), v.x.end(), v.p.begin());
  multiply();
  for (std::size_t i = 0; i < v.r.size(); ++i) v.r[i] = v.b[i] - v.q[i];
}

}  // namespace

CgResult solve_cg(const CgVectors& v, const std::function<void()>& multiply, double tolerance,
                  std::size_t iterations_max) {
  const double target = tolerance * norm(v.b);
  std::fill(v.x.begin(), v.x.end(), 0.0);
  std::copy(v.b.begin(), v.b.end(), v.r.begin());
  double residual = norm(v.r);
  double last_true_residual = std::numeric_limits<double>::infinity();
  double rz = precondition(v);
  std::copy(v.z.begin(), v.z.end(), v.p.begin());

  std::size_t iterations = 0;
  const auto end = [&](CgStatus status) {
    return CgResult{status, iterations, residual / norm(v.b)};
  };
  while (residual > target) {
    if (iterations == iterations_max) return end(CgStatus::too_many_iterations);
    multiply();
    const double curvature = dot(v.p, v.q);
    if (!(curvature > 0) || !std::isfinite(curvature)) return end(CgStatus::not_positive_definite);
    const double step = rz / curvature;
    add_scaled(v.x, step, v.p);
    add_scaled(v.r, -step, v.q);
    residual = norm(v.r);
    ++iterations;

    if (residual <= target) {
      residual_afresh(v, multiply);
      residual = norm(v.r);
      if (residual <= target) break;
      if (!(residual < last_true_residual / 2)) return end(CgStatus::stagnated);
      last_true_residual = residual;
      rz = precondition(v);
      std::copy(v.z.begin(), v.z.end(), v.p.begin());
      continue;
    }
    const double old_rz = rz;
    rz = precondition(v);
    scale_and_add(v.p, rz / old_rz, v.z);
  }
  return end(std::isfinite(residual) ? CgStatus::converged : CgStatus::not_positive_definite);
}

}  // namespace wherry::tool
