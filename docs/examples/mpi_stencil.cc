// A stencil over several MPI ranks, each with a runtime and devices of its own: device kernels
// compute, and halo rows go from managed memory to managed memory through MPI.
// Usage: mpirun -n RANKS mpi_stencil [ROWS COLUMNS STEPS [pin]]; every rank has at least two rows.
// With `pin` the pages that MPI uses stay in the host's memory (docs/mpi.md says when that helps).
#include <mpi.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>
#include <wherry/wherry.hpp>

namespace {

// One step for one row: each inner value becomes the mean of its four neighbours.
void update_row(const double* from, double* to, std::size_t columns) {
  for (std::size_t x = 1; x + 1 < columns; ++x)
    to[x] = (from[x - columns] + from[x + columns] + from[x - 1] + from[x + 1]) / 4;
}

double at_start(std::size_t row, std::size_t column) {
  return static_cast<double>((row * 7919 + column * 104729) % 1000);
}

// The values' bits, added: equal for equal values, in any order.
std::uint64_t checksum(const double* values, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::bit_cast<std::uint64_t>(values[i]);
  return sum;
}

// The whole grid in ordinary memory, for comparison. Rows 0 and rows + 1 never change.
std::uint64_t serial_checksum(std::size_t rows, std::size_t columns, int steps) {
  std::vector<double> now((rows + 2) * columns);
  for (std::size_t i = 0; i < now.size(); ++i) now[i] = at_start(i / columns, i % columns);
  std::vector<double> next = now;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t row = 1; row <= rows; ++row)
      update_row(&now[row * columns], &next[row * columns], columns);
    now.swap(next);
  }
  return checksum(&now[columns], rows * columns);
}

void pin(std::span<double> values) {
  const auto address = reinterpret_cast<std::uintptr_t>(values.data());
  if (const CUresult result = wherryPinPages(address, values.size_bytes()); result != CUDA_SUCCESS)
    throw wherry::error(result, "wherryPinPages");
  wherry::touch_for_writing(values);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto argument = [&](int nth, std::size_t otherwise) {
    return nth < argc ? std::strtoul(argv[nth], nullptr, 10) : otherwise;
  };
  const std::size_t all_rows = argument(1, 16), columns = argument(2, 131'072);  // rows of 1 MiB
  const int steps = static_cast<int>(argument(3, 10));
  const auto first_row = [&](int of) { return all_rows * static_cast<unsigned>(of) / ranks; };
  const std::size_t before = first_row(rank), rows = first_row(rank + 1) - before;

  // This rank's rows are 1 to `rows`; rows 0 and rows + 1 are the neighbours', or the border.
  wherry::runtime runtime;
  wherry::stream stream(runtime.device(0));
  wherry::managed_array<double> now((rows + 2) * columns), next((rows + 2) * columns);
  for (std::size_t i = 0; i < now.size(); ++i)
    now[i] = next[i] = at_start(before + i / columns, i % columns);

  if (argc > 4)
    for (auto* array : {&now, &next}) {
      pin(array->span().first(2 * columns));  // the row from above, and the one to there
      pin(array->span().last(2 * columns));
    }

  const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
  const int count = static_cast<int>(columns);
  for (int step = 0; step < steps; ++step) {
    double* const grid = now.data();
    MPI_Request requests[4];
    MPI_Irecv(grid, count, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(grid + (rows + 1) * columns, count, MPI_DOUBLE, below, 1, MPI_COMM_WORLD,
              &requests[1]);
    MPI_Isend(grid + columns, count, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(grid + rows * columns, count, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[3]);
    // Meanwhile the device computes the rows that need no neighbour.
    const auto update = [from = now.span(), to = next.span(), columns](std::size_t row) {
      update_row(&from[row * columns], &to[row * columns], columns);
    };
    stream.parallel_for(rows - 2, [update](std::size_t i) { update(i + 2); });
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    stream.parallel_for(2, [update, rows](std::size_t i) { update(i == 0 ? 1 : rows); });
    stream.synchronize();
    std::swap(now, next);
  }

  const std::uint64_t own = checksum(now.data() + columns, rows * columns);
  const std::uint64_t serial = rank == 0 ? serial_checksum(all_rows, columns, steps) : 0;
  std::uint64_t sums[2] = {own, serial};
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  const bool equal = sums[0] == sums[1];
  if (rank == 0)
    std::printf("%d ranks, checksum %016llx: %s\n", ranks, static_cast<unsigned long long>(sums[0]),
                equal ? "as computed by one process" : "WRONG");
  MPI_Finalize();
  return equal ? 0 : 1;
}
