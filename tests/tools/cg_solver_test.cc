#include "cg_solver.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "csr.h"
#include "support/catch.h"
#include "support/conditions.h"
#include "vectors.h"

namespace wherry::tool::cg_solver_test {
namespace {

// A matrix with its vectors, all in ordinary memory.
struct Problem {
  CsrMatrix matrix;
  std::vector<double> inverse;
  std::optional<std::size_t> bad_row;
  Vectors<OrdinaryArray> vectors;

  explicit Problem(const Triplets& triplets)
      : matrix(assemble(triplets)),
        inverse(triplets.rows),
        bad_row(invert_diagonal(matrix.view(), inverse)),
        vectors(inverse) {}

  CsrView csr() const { return matrix.view(); }
};

CgResult solve(Problem& problem, double tolerance, std::size_t iterations_max = 10000) {
  const CsrView csr = problem.csr();
  return solve_cg(
      problem.vectors.spans(),
      [&] { multiply_rows(csr, problem.vectors.p.data(), problem.vectors.q.data(), 0, csr.rows); },
      tolerance, iterations_max);
}

double residual(const Problem& problem) {
  return relative_residual(problem.csr(), problem.vectors.b, problem.vectors.x);
}

Triplets diagonal(const std::vector<double>& values) {
  Triplets matrix;
  matrix.rows = static_cast<std::uint32_t>(values.size());
  for (std::uint32_t i = 0; i < matrix.rows; ++i) matrix.entries.push_back({i, i, values[i]});
  return matrix;
}

}  // namespace

TEST_CASE("assembly puts every entry into its row with ascending columns, in any order of input") {
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 50; ++round) {
    Triplets matrix;
    matrix.rows = static_cast<std::uint32_t>(1 + random() % 30);
    std::map<std::pair<std::uint32_t, std::uint32_t>, double> expected;
    for (int i = 0; i < 100; ++i) {
      expected[{random() % matrix.rows, random() % matrix.rows}] =
          static_cast<double>(random() % 1000);
    }
    for (const auto& [place, value] : expected)
      matrix.entries.push_back({place.first, place.second, value});
    std::shuffle(matrix.entries.begin(), matrix.entries.end(), random);

    const Problem problem(matrix);
    const CsrView csr = problem.csr();
    auto next = expected.begin();
    for (std::uint32_t row = 0; row < matrix.rows; ++row) {
      for (std::uint64_t i = csr.offsets[row]; i < csr.offsets[row + 1]; ++i, ++next) {
        REQUIRE(next->first == std::pair(row, csr.columns[i]));
        REQUIRE(next->second == csr.values[i]);
      }
    }
    REQUIRE(next == expected.end());
  }
}

TEST_CASE("the Poisson matrix has the 5-point stencil") {
  const Triplets matrix = poisson_2d(3);
  CHECK(matrix.rows == 9);
  CHECK(matrix.entries.size() == 9 + 2 * 12);
  const Problem problem(matrix);
  std::vector<double> ones(9, 1.0);
  std::vector<double> sums(9);
  multiply_rows(problem.csr(), ones.data(), sums.data(), 0, 9);
  CHECK(sums == std::vector<double>{2, 1, 2, 1, 0, 1, 2, 1, 2});
  CHECK(poisson_2d(1).entries.size() == 1);
}

TEST_CASE("CG solves the Poisson problem to the requested tolerance") {
  Problem problem(poisson_2d(24));
  for (const double tolerance : {1e-2, 1e-8, 1e-12}) {
    const CgResult result = solve(problem, tolerance);
    CHECK(result.status == CgStatus::converged);
    CHECK(result.iterations > 0);
    CHECK(residual(problem) <= tolerance * (1 + 1e-3));
  }
}

TEST_CASE("Jacobi takes one iteration for a diagonal system of any scale") {
  Problem problem(diagonal({1e-6, 1, 1e6, 3}));
  const CgResult result = solve(problem, 1e-10);
  CHECK(result.status == CgStatus::converged);
  CHECK(result.iterations == 1);
  CHECK(problem.vectors.x[0] == Catch::Approx(1e6));
}

TEST_CASE("a product in pieces gives the same bits as a single one") {
  const Problem problem(poisson_2d(20));
  std::vector<double> x(400);
  std::iota(x.begin(), x.end(), 0.1);
  std::vector<double> whole(400);
  std::vector<double> pieces(400);
  multiply_rows(problem.csr(), x.data(), whole.data(), 0, 400);
  for (const auto& [begin, end] : {std::pair(300, 400), std::pair(0, 17), std::pair(17, 300)})
    multiply_rows(problem.csr(), x.data(), pieces.data(), begin, end);
  CHECK(whole == pieces);
}

TEST_CASE("rows without a positive diagonal entry are found") {
  CHECK_FALSE(Problem(diagonal({1, 2, 3})).bad_row);
  CHECK(Problem(diagonal({1, 0, 3})).bad_row == 1);
  CHECK(Problem(diagonal({1, 2, -3})).bad_row == 2);
  Triplets absent;
  absent.rows = 2;
  absent.entries = {{0, 0, 1}, {1, 0, 1}};
  CHECK(Problem(absent).bad_row == 1);
}

TEST_CASE("a solve that cannot converge ends with its reason") {
  Triplets indefinite;
  indefinite.rows = 2;
  indefinite.entries = {{0, 0, 1}, {0, 1, -4}, {1, 0, -4}, {1, 1, 1}};
  Problem wrong(indefinite);
  CHECK(solve(wrong, 1e-8).status == CgStatus::not_positive_definite);

  Problem problem(poisson_2d(24));
  const CgResult short_run = solve(problem, 1e-8, 5);
  CHECK(short_run.status == CgStatus::too_many_iterations);
  CHECK(short_run.iterations == 5);
  CHECK(short_run.relative_residual > 1e-8);

  CHECK(solve(problem, 1e-17).status == CgStatus::stagnated);
}

TEST_CASE("rows are split into parts with equal shares that cover them all") {
  const Problem problem(poisson_2d(64));
  const CsrView csr = problem.csr();
  for (std::size_t parts = 1; parts <= 8; ++parts) {
    const std::vector<std::size_t> ends = split_rows(csr, parts);
    REQUIRE(ends.size() == parts);
    CHECK(ends.back() == csr.rows);
    std::size_t first = 0;
    for (const std::size_t end : ends) {
      REQUIRE(end > first);
      const auto entries = static_cast<double>(csr.offsets[end] - csr.offsets[first]);
      CHECK(entries * static_cast<double>(parts) ==
            Catch::Approx(static_cast<double>(csr.offsets[csr.rows])).epsilon(0.01));
      first = end;
    }
  }
  const Problem tiny(diagonal({1, 1}));
  const std::vector<std::size_t> ends = split_rows(tiny.csr(), 8);
  CHECK(ends.size() == 8);
  CHECK(std::is_sorted(ends.begin(), ends.end()));
  CHECK(ends.back() == 2);
}

}  // namespace wherry::tool::cg_solver_test
