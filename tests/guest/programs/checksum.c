// Four threads fill a large allocation, each its part, and add up each other's parts. Prints the
// sum, which does not depend on who runs first.
//
// Usage: checksum
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define NUMBERS (1ul << 20)  // of each thread

static uint64_t* memory;
static uint64_t sums[THREADS];
static pthread_barrier_t filled;

static void* work(void* given) {
  const size_t thread = (size_t)(uintptr_t)given;
  uint64_t* const own = memory + thread * NUMBERS;
  for (size_t i = 0; i < NUMBERS; ++i) own[i] = thread * NUMBERS + i;
  pthread_barrier_wait(&filled);
  const uint64_t* const other = memory + (thread + 1) % THREADS * NUMBERS;
  for (size_t i = 0; i < NUMBERS; ++i) sums[thread] += other[i];
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  memory = malloc(THREADS * NUMBERS * sizeof *memory);
  if (memory == NULL) return 1;
  pthread_barrier_init(&filled, NULL, THREADS);
  for (size_t i = 0; i < THREADS; ++i)
    if (pthread_create(&threads[i], NULL, work, (void*)(uintptr_t)i) != 0) return 1;
  uint64_t sum = 0;
  for (size_t i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    sum += sums[i];
  }
  printf("the sum is %lu\n", (unsigned long)sum);
  free(memory);
  return 0;
}
