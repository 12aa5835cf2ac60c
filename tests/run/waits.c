// A program that knows nothing of Wherry and has in large memory the words on which threads wait
// in Linux, or which Linux changes: those of ending threads, semaphores and mutexes.
//
// Usage: waits join | semaphore [moved]
//        waits robust | priority
//   moved  meanwhile another thread uses the memory; otherwise a part of it gets other rights
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>

#include "bounded.h"

#define BYTES (4 * MIB)
#define ROUNDS 40
#define THREADS 4

static char* memory;
static int is_moved;

static pthread_t start(void* function(void*), const pthread_attr_t* attributes) {
  pthread_t thread;
  if (pthread_create(&thread, attributes, function, NULL) != 0) exit(3);
  return thread;
}

// Writes to the pages without changing their contents, which other threads use meanwhile.
static void use_pages(size_t step) {
  for (size_t at = 64; at < BYTES; at += step) __atomic_fetch_add(memory + at, 0, __ATOMIC_RELAXED);
}

// ---- The memory changes while a thread waits

// Returns when the main thread has had time to begin to wait.
static void change_memory(void) {
  usleep(50000);
  if (!is_moved && mprotect(memory, 4096, PROT_READ) != 0) perror("mprotect");
  for (int i = 0; is_moved && i < 10; ++i) {
    use_pages(4096);
    usleep(1000);
  }
}

static volatile int is_changed;

static void* wait_on_stack(void* unused) {
  while (!is_changed) usleep(1000);
  return unused;
}
static void* change_stack(void* unused) {
  change_memory();
  is_changed = 1;
  return unused;
}
// When a thread ends, Linux wakes those that join it by a word at the end of its stack.
static void join(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, memory, BYTES);
  const pthread_t ending = start(wait_on_stack, &attributes);
  const pthread_t changing = start(change_stack, NULL);
  pthread_join(ending, NULL);
  printf("joined\n");
  pthread_join(changing, NULL);
}

static sem_t* semaphore;

static void* change_and_post(void* unused) {
  change_memory();
  sem_post(semaphore);
  return unused;
}
// A semaphore for several processes, of which there is one.
static void wait_for_semaphore(void) {
  semaphore = (sem_t*)(memory + MIB);
  sem_init(semaphore, /*pshared=*/1, 0);
  const pthread_t posting = start(change_and_post, NULL);
  while (sem_wait(semaphore) != 0) continue;
  printf("posted\n");
  pthread_join(posting, NULL);
}

// ---- Mutexes that Linux changes while the pages are used

static pthread_mutex_t* mutex;

static void* end_with_mutex(void* unused) {
  pthread_mutex_lock(mutex);
  usleep(5000);
  return unused;
}
static void use_robust_mutex(pthread_mutexattr_t* attributes) {
  pthread_mutexattr_setrobust(attributes, PTHREAD_MUTEX_ROBUST);
  for (int i = 0; i < ROUNDS; ++i) {
    pthread_mutex_init(mutex, attributes);
    const pthread_t owner = start(end_with_mutex, NULL);
    use_pages(16384);
    pthread_join(owner, NULL);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    ++until.tv_sec;
    const int error = pthread_mutex_timedlock(mutex, &until);
    if (error == EOWNERDEAD) continue;
    printf("round %d: %s\n", i, strerror(error));
    return;
  }
  printf("all owners were found dead\n");
}

static volatile int stop;

static void* lock_and_unlock(void* unused) {
  while (!stop) {
    if (pthread_mutex_lock(mutex) != 0) exit(4);
    sched_yield();  // the others begin to wait
    if (pthread_mutex_unlock(mutex) != 0) exit(5);
  }
  return unused;
}
// The C library ends the program where Linux answers with an error that it does not know.
static void use_priority_mutex(pthread_mutexattr_t* attributes) {
  pthread_mutexattr_setprotocol(attributes, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(mutex, attributes);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) threads[i] = start(lock_and_unlock, NULL);
  const double end = seconds() + 1.5;
  while (seconds() < end) use_pages(4096);
  stop = 1;
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  printf("locked and unlocked\n");
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  is_moved = argc == 3;
  memory = map(BYTES);
  memset(memory, 0, BYTES);
  mutex = (pthread_mutex_t*)(memory + MIB);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  if (strcmp(argv[1], "join") == 0)
    join();
  else if (strcmp(argv[1], "semaphore") == 0)
    wait_for_semaphore();
  else if (strcmp(argv[1], "robust") == 0)
    use_robust_mutex(&attributes);
  else if (strcmp(argv[1], "priority") == 0)
    use_priority_mutex(&attributes);
  else
    return 2;
  return 0;
}
