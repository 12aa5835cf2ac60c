// A program that knows nothing of Wherry and forks in unusual states: while fork handlers use large
// memory, while other threads run on stacks in large memory, in a signal handler, at its end.
//
// Usage: unusual_forks lock-handlers | child-handlers | end | malloc-stacks | mmap-stacks | signal
#include <pthread.h>
#include <string.h>
#include <sys/time.h>

#include "bounded.h"
#include "early_library.h"

#define THREADS 4

static volatile int stop;

static void start(void* function(void*), const pthread_attr_t* attributes, pthread_t* thread) {
  if (pthread_create(thread, attributes, function, NULL) != 0) exit(3);
}

static int failed_forks(int count, int code) {
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(code);
    const int found = code_of(child);
    if (found != code && failed++ == 0) fprintf(stderr, "a child ended with %d\n", found);
  }
  return failed;
}

// ---- Fork handlers

static void* allocate_for_ever(void* unused) {
  while (!stop) allocate_with_lock();
  return unused;
}
// The fork handlers wait for a lock whose holder, another thread, waits for memory.
static void fork_beside_lock(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) start(allocate_for_ever, NULL, &threads[i]);
  printf("%d forks failed\n", failed_forks(50, 5));
  stop = 1;
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
}

// ---- Threads on stacks in large memory

static void* run_on_stack(void* unused) {
  char local[100000];
  memset(local, 1, sizeof local);
  while (!stop) {
    char* const memory = malloc(MIB);
    memory[9] = local[9];
    free(memory);
    usleep(100);
  }
  return unused;
}
// The C library changes the stacks of the other threads in the child, before any handler runs.
static void fork_beside_stacks(int is_mapped) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, is_mapped ? map(2 * MIB) : aligned_alloc(4096, 2 * MIB),
                          2 * MIB);
    start(run_on_stack, &attributes, &threads[i]);
  }
  printf("%d forks failed\n", failed_forks(10, 6));
  stop = 1;
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
}

// ---- A signal handler

static char* kept;
static volatile int forks, failed;

static void fork_in_handler(int signal) {
  (void)signal;
  const int error = errno;
  const pid_t child = fork();
  if (child == 0) _exit(kept[0] + kept[4 * MIB - 1]);
  failed += code_of(child) != 6;
  ++forks;
  errno = error;
}
static void fork_in_handlers(void) {
  kept = map(4 * MIB);
  memset(kept, 3, 4 * MIB);
  const struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
  sigaction(SIGPROF, &action, NULL);
  const double end = seconds() + 1.5;
  while (forks < 40 && seconds() < end) {
    // The timer counts the program's processor time, so the signal comes while it allocates.
    const int before = forks;
    const struct itimerval once = {{0, 0}, {0, 500 + before * 97 % 2000}};
    setitimer(ITIMER_PROF, &once, NULL);
    while (forks == before && seconds() < end) {
      char* const memory = malloc(80 * MIB);
      memory[0] = 1;
      free(memory);
    }
  }
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_PROF, &never, NULL);
  printf("%d forks failed\n", failed);
  fprintf(stderr, "%d forks\n", forks);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const char* const kind = argv[1];
  // Managed memory of which each child gets a copy.
  char* const first = malloc(4 * MIB);
  memset(first, 1, 4 * MIB);
  if (strcmp(kind, "lock-handlers") == 0) {
    fork_beside_lock();
  } else if (strcmp(kind, "child-handlers") == 0) {
    put_lock_into_large_memory();
    printf("%d forks failed\n", failed_forks(3, 7));
  } else if (strcmp(kind, "end") == 0) {
    fork_at_end();
  } else if (strcmp(kind, "malloc-stacks") == 0) {
    fork_beside_stacks(0);
  } else if (strcmp(kind, "mmap-stacks") == 0) {
    fork_beside_stacks(1);
  } else if (strcmp(kind, "signal") == 0) {
    fork_in_handlers();
  } else {
    return 2;
  }
  free(first);
  return 8;
}
