// OpenMP threads sum the rows of a matrix again and again. The threads of the other node have
// written the rows first, so Linux has put each on the wrong node. OMP_PLACES and OMP_PROC_BIND
// keep the threads on their CPUs.
//
// Usage: matrix_sum SECONDS
#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "passes.h"

namespace {

constexpr std::size_t rows = 2000;
constexpr std::size_t columns = 2100;

std::uint64_t sum(const std::uint32_t* values, std::size_t count) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) total += values[i] * (i % 7 + 1);
  return total;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  begin_passes(argv[1]);
  const std::unique_ptr<std::uint32_t[]> matrix(new std::uint32_t[rows * columns]);
#pragma omp parallel num_threads(THREADS)
  {
    const auto thread = static_cast<unsigned>(omp_get_thread_num());
    const unsigned other = (thread + THREADS / 2) % THREADS;
    for (std::size_t i = first_of(rows, other) * columns; i < first_of(rows, other + 1) * columns;
         ++i)
      matrix[i] = static_cast<std::uint32_t>(i * 2654435761u);
    wait_for_all();

    const std::uint32_t* const own = &matrix[first_of(rows, thread) * columns];
    const std::size_t count = (first_of(rows, thread + 1) - first_of(rows, thread)) * columns;
    std::uint64_t total = 0;
    do {
      total = sum(own, count);
      note_use(own, count * sizeof *own);
    } while (goes_on(total));
  }
  return report_passes();
}
