// Passes large messages between MPI ranks, also into memory that no page exists in yet.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t count = 2u << 20;
  double sum = 0;
  for (int round = 0; round < 4; ++round) {
    double* const out = malloc(count * sizeof *out);
    double* const in = malloc(count * sizeof *in);
    double* const all = malloc(count * sizeof *all);
    for (size_t i = 0; i < count; ++i)
      out[i] = (double)((i * 31 + (size_t)rank) % 1000 + (size_t)round);
    MPI_Sendrecv(out, (int)count, MPI_DOUBLE, (rank + 1) % ranks, 0, in, (int)count, MPI_DOUBLE,
                 (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(in, all, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; i < count; ++i) sum += all[i] * (double)(i % 7);
    free(out);
    free(in);
    free(all);
  }
  if (rank == 0) printf("%d ranks: %.1f\n", ranks, sum);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
