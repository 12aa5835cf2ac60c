#include "cg.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstring>
#include <variant>
#include <wherry/wherry.hpp>

#include "cg_report.h"
#include "complain.h"
#include "csr.h"
#include "managed_solve.h"
#include "matrix_market.h"
#include "phases.h"
#include "progress.h"
#include "vectors.h"

namespace wherry::tool {
namespace {

std::string why_not(const CgResult& result, double tolerance) {
  switch (result.status) {
    case CgStatus::converged:
      return {};
    case CgStatus::too_many_iterations:
      return fmt::format("no convergence in {} iterations: |b - Ax| / |b| is {:.1e}, not {:.1e}",
                         result.iterations, result.relative_residual, tolerance);
    case CgStatus::not_positive_definite:
      return fmt::format(
          "no convergence: the matrix is not symmetric positive definite (iteration {})",
          result.iterations);
    case CgStatus::stagnated:
      return fmt::format("no convergence: rounding keeps |b - Ax| / |b| at {:.1e}, above {:.1e}",
                         result.relative_residual, tolerance);
  }
  return {};
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

// Limit for the iterations of CG, as a multiple of the rows. With exact arithmetic, CG needs at
// most one iteration per row.
constexpr std::size_t iterations_per_row = 10;

}  // namespace

int run_cg(const CgOptions& options) {
  Triplets matrix;
  if (options.matrix.empty()) {
    matrix = poisson_2d(options.poisson);
  } else {
    MatrixMarketResult read = read_matrix_market(options.matrix);
    if (const auto* error = std::get_if<TextError>(&read))
      return complain(describe(options.matrix, *error));
    matrix = std::get<Triplets>(std::move(read));
  }

  const CsrMatrix csr = assemble(matrix);
  std::vector<double> inverse_diagonal(matrix.rows);
  if (const auto row = invert_diagonal(csr.view(), inverse_diagonal)) {
    return complain(
        fmt::format("row {} has no positive diagonal entry: the matrix is not symmetric "
                    "positive definite",
                    *row + 1));
  }
  const runtime library;
  const int available = library.device_count();
  if (options.devices > available) {
    return complain(fmt::format("--devices {}: there {} {} (WHERRY_DEVICES chooses them)",
                                options.devices, available == 1 ? "is only" : "are only",
                                available));
  }
  const int devices = options.devices == 0 ? available : options.devices;
  const std::size_t iterations_max = iterations_per_row * matrix.rows;

  Progress progress;
  progress.show("solving in managed memory");
  PhaseRecorder recorder(library);
  const SolveOptions solve{devices, options.advise, options.tolerance, iterations_max};
  const ManagedSolution managed =
      solve_managed(csr.view(), inverse_diagonal, solve, library, recorder);

  progress.show("solving in ordinary memory, to compare");
  recorder.enter(Phase::check);
  Vectors<OrdinaryArray> ordinary(inverse_diagonal);
  const auto multiply = [&] {
    multiply_rows(csr.view(), ordinary.p.data(), ordinary.q.data(), 0, ordinary.q.size());
  };
  const CgResult expected = solve_cg(ordinary.spans(), multiply, options.tolerance, iterations_max);
  const double residual = relative_residual(csr.view(), ordinary.b, managed.x);
  recorder.leave();

  if (managed.result.iterations != expected.iterations || !same_bits(managed.x, ordinary.x)) {
    return complain(
        fmt::format("managed memory gave another solution than ordinary memory: {} "
                    "iterations, not {}; residual {:.3e}",
                    managed.result.iterations, expected.iterations, residual));
  }
  if (managed.result.status != CgStatus::converged)
    return complain(why_not(managed.result, options.tolerance));

  CgReport report;
  report.matrix =
      options.matrix.empty() ? fmt::format("poisson {0}x{0}", options.poisson) : options.matrix;
  report.rows = matrix.rows;
  report.entries = matrix.entries.size();
  report.devices = devices;
  report.advised = options.advise;
  report.tolerance = options.tolerance;
  report.result = managed.result;
  report.relative_residual = residual;
  report.placements = managed.placements;
  report.after_first_iteration = managed.after_first_iteration;
  report.phases = &recorder;
  return print_out(options.json ? as_json(report) : as_text(report));
}

}  // namespace wherry::tool
