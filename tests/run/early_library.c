// A library that the loader initialises before the libraries that are preloaded, because the
// program is linked with it, or that the program loads later. It uses large memory in its
// constructor, in its fork handlers and in its destructor.
#include "early_library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (4ul << 20)

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t* lock = &own;
static char* at_end;

static void take_lock(void) {
  pthread_mutex_lock(lock);
}
static void give_lock(void) {
  pthread_mutex_unlock(lock);
}

void allocate_with_lock(void) {
  take_lock();
  char* const memory = malloc(BYTES);
  memory[0] = 1;
  free(memory);
  give_lock();
}

void put_lock_into_large_memory(void) {
  lock = malloc(BYTES);
  pthread_mutex_init(lock, NULL);
}

void fork_at_end(void) {
  at_end = malloc(BYTES);
  memset(at_end, 4, BYTES);
}

static void* nothing(void* unused) {
  return unused;
}

__attribute__((constructor)) static void begin(void) {
  pthread_atfork(take_lock, give_lock, give_lock);
  pthread_t thread;
  if (getenv("THREAD_IN_CONSTRUCTOR") != NULL &&
      pthread_create(&thread, NULL, nothing, NULL) == 0) {
    pthread_join(thread, NULL);
    printf("joined in a constructor\n");
  }
  if (getenv("ALLOCATE_IN_CONSTRUCTOR") == NULL) return;
  char* const memory = malloc(2 * BYTES);
  memset(memory, 1, 2 * BYTES);
  printf("allocated in a constructor\n");
}

__attribute__((destructor)) static void end(void) {
  if (at_end == NULL) return;
  char* const zeros = calloc(1, BYTES);
  int sum = 0;
  for (size_t i = 0; i < BYTES; i += 4096) sum += at_end[i] + zeros[i];
  const pid_t child = fork();
  if (child == 0) _exit(at_end[9] + zeros[9]);
  int status = 0;
  waitpid(child, &status, 0);
  printf("destructor: %d, status of the child %x\n", sum, status);
  fflush(stdout);
  free(zeros);
  free(at_end);
}
