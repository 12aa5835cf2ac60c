// A stencil whose main thread allocates and initialises the arrays, so that Linux puts all of them
// on its node. Then a thread for each CPU computes its own rows.
//
// Usage: stencil SECONDS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes.h"

#define SIDE 1200ul
#define SWEEPS 2

static double* initial;
static double* grids[2];

static void sweep(const double* from, double* to, size_t first, size_t end) {
  for (size_t row = first == 0 ? 1 : first; row < end && row < SIDE - 1; ++row)
    for (size_t i = row * SIDE + 1; i < row * SIDE + SIDE - 1; ++i)
      to[i] = 0.25 * (from[i - SIDE] + from[i + SIDE] + from[i - 1] + from[i + 1]);
}

static void* compute(void* given) {
  const unsigned thread = (unsigned)(uintptr_t)given;
  pin_to_cpu(thread);
  const size_t first = first_of(SIDE, thread), end = first_of(SIDE, thread + 1);
  const size_t start = first * SIDE, bytes = (end - first) * SIDE * sizeof(double);
  uint64_t sum;
  do {
    memcpy(grids[0] + start, initial + start, bytes);
    memcpy(grids[1] + start, initial + start, bytes);
    for (unsigned i = 0; i < SWEEPS; ++i) {
      wait_for_all();
      sweep(grids[i % 2], grids[(i + 1) % 2], first, end);
    }
    const double* const result = grids[SWEEPS % 2];
    sum = 0;
    for (size_t i = start; i < end * SIDE; ++i) {
      uint64_t bits;
      memcpy(&bits, &result[i], sizeof bits);
      sum += (bits ^ bits >> 32) * (2 * i + 1);
    }
    note_use(initial + start, bytes);
    note_use(grids[0] + start, bytes);
    note_use(grids[1] + start, bytes);
  } while (goes_on(sum));
  return NULL;
}

static double* new_grid(void) {
  double* const grid = malloc(SIDE * SIDE * sizeof(double));
  if (grid == NULL) perror("malloc"), exit(1);
  for (size_t i = 0; i < SIDE * SIDE; ++i) grid[i] = (double)(i * 2654435761u % 1000);
  return grid;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  begin_passes(argv[1]);
  pin_to_cpu(0);
  initial = new_grid();
  grids[0] = new_grid();
  grids[1] = new_grid();
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; ++i)
    if (pthread_create(&threads[i], NULL, compute, (void*)i) != 0) return 1;
  for (unsigned i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  return report_passes();
}
