// A program that knows nothing of Wherry and makes small allocations only. Its allocator maps
// memory, or asks for advice on it, while it holds its locks.
//
// Usage: small_allocations alone | thread | forks
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "bounded.h"

#define SLOTS 64
#define THREADS 2

static volatile int stop;

static void allocate(unsigned steps) {
  void* slots[SLOTS] = {NULL};
  for (unsigned i = 0; i < steps && !stop; ++i) {
    void** const slot = &slots[i % SLOTS];
    free(*slot);
    *slot = malloc(1000 + i * 7919 % 200000);
    memset(*slot, 1, 100);
  }
  for (int i = 0; i < SLOTS; ++i) free(slots[i]);
}

static void* allocate_in_thread(void* steps) {
  allocate((unsigned)(size_t)steps);
  return NULL;
}

// The children allocate too, and other threads do so meanwhile.
static void fork_beside_threads(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i)
    pthread_create(&threads[i], NULL, allocate_in_thread, (void*)UINT32_MAX);
  int failed = 0;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      allocate(100);
      _exit(3);
    }
    failed += code_of(child) != 3;
  }
  stop = 1;
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  printf("%d children failed\n", failed);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (strcmp(argv[1], "alone") == 0) {
    allocate(2000);
  } else if (strcmp(argv[1], "thread") == 0) {
    // The first allocation of the thread comes after the first large one of the program.
    char* const large = malloc(4 * MIB);
    memset(large, 1, 4 * MIB);
    pthread_t thread;
    pthread_create(&thread, NULL, allocate_in_thread, (void*)2000);
    pthread_join(thread, NULL);
    free(large);
  } else {
    fork_beside_threads();
  }
  printf("allocated\n");
  return 5;
}
