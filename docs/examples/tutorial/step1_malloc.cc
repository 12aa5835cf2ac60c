// Step 1 of docs/tutorial.md: memory of malloc, and threads of OpenMP.
#include <cstdlib>
#include <utility>

#include "jacobi.h"

int main() {
  constexpr std::size_t bytes = jacobi::values * sizeof(double);
  double* grid = static_cast<double*>(std::malloc(bytes));
  double* next = static_cast<double*>(std::malloc(bytes));
  double* const source = static_cast<double*>(std::malloc(bytes));
  if (grid == nullptr || next == nullptr || source == nullptr) return 1;
  jacobi::fill(grid, next, source);

  const jacobi::Clock clock;
  double change = 0;
  for (int step = 0; step < jacobi::steps; ++step) {
#pragma omp parallel for
    for (std::size_t row = jacobi::first_row; row < jacobi::end_row; ++row)
      jacobi::relax_row(grid, source, next, row);

    change = 0;
#pragma omp parallel for reduction(max : change)
    for (std::size_t row = jacobi::first_row; row < jacobi::end_row; ++row)
      change = std::max(change, jacobi::change_of_row(grid, next, row));
    std::swap(grid, next);
  }
  jacobi::print(change, clock.seconds());

  std::free(grid);
  std::free(next);
  std::free(source);
}
