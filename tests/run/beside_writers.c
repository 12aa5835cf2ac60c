// A program that knows nothing of Wherry: one thread has Linux change memory while other threads
// use the same region. No thread may lose what it wrote, and no call its effect.
//
// Usage: beside_writers child | advice
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "bounded.h"

#define SECONDS 1.0
#define THREADS 4

static char* region;
static volatile int stop;

// ---- A child of fork() whose memory is changed while another of its threads writes to it

#define BYTES (16 * MIB)
#define WORDS 64

// Writes to many words, since a write just after the memory has changed hides what was lost before.
static void* count_lost_writes(void* words_of_thread) {
  volatile uint64_t* const words = words_of_thread;
  uint64_t expected[WORDS] = {0};
  uintptr_t lost = 0;
  for (int i = 0; !stop; i = (i + 1) % WORDS) {
    lost += words[i] != expected[i];
    words[i] = ++expected[i];
  }
  return (void*)lost;
}

static int change_beside_writers(int kind) {
  pthread_t writers[2];
  for (int i = 0; i < 2; ++i)
    if (pthread_create(&writers[i], NULL, count_lost_writes, region + 4096 * i) != 0) return 100;
  usleep(5000);
  char* const page = region + BYTES - 4096;
  int result = 0;
  switch (kind) {
    case 0:
      result = madvise(page, 4096, MADV_DONTNEED);
      break;
    case 1:
      result = mprotect(page, 4096, PROT_READ);
      break;
    default:
      result = mlock(page, 4096);
  }
  if (result != 0) return 101;
  usleep(5000);
  stop = 1;
  uintptr_t lost = 0;
  for (int i = 0; i < 2; ++i) {
    void* of_thread = NULL;
    pthread_join(writers[i], &of_thread);
    lost += (uintptr_t)of_thread;
  }
  return lost != 0;
}

static void change_in_children(void) {
  const char* const names[] = {"madvise", "mprotect", "mlock"};
  for (int kind = 0; kind < 3; ++kind) {
    int failed = 0;
    for (int i = 0; i < 3; ++i) {
      region = map(BYTES);
      memset(region, 0, BYTES);
      const pid_t child = fork();
      if (child == 0) _exit(change_beside_writers(kind));
      failed += code_of(child) != 0;
      munmap(region, BYTES);
    }
    printf("%s: %d children lost writes\n", names[kind], failed);
  }
}

// ---- Pages are given up while another thread changes the rights of their region

static pthread_barrier_t barrier;

static void* give_up_pages(void* number) {
  char* const memory = region + (uintptr_t)number * 32 * 4096;
  uintptr_t kept = 0;
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 32; ++i) {
    char* const page = memory + i * 4096;
    if (madvise(page, 4096, MADV_DONTNEED) != 0) kept += 1000;
    kept += *page != 0;
  }
  return (void*)kept;
}

static void protect_beside_advice(void) {
  uintptr_t kept = 0;
  int rounds = 0;
  const double end = seconds() + SECONDS;
  while (rounds < 200 && seconds() < end) {
    region = map(2 * MIB);
    memset(region, 1, MIB);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; ++i)
      pthread_create(&threads[i], NULL, give_up_pages, (void*)i);
    pthread_barrier_wait(&barrier);
    usleep((unsigned)(rounds++ % 50));
    if (mprotect(region + MIB, 4096, PROT_READ) != 0) perror("mprotect");
    for (int i = 0; i < THREADS; ++i) {
      void* of_thread = NULL;
      pthread_join(threads[i], &of_thread);
      kept += (uintptr_t)of_thread;
    }
    pthread_barrier_destroy(&barrier);
    munmap(region, 2 * MIB);
  }
  printf("%d pages kept their contents\n", (int)kept);
  fprintf(stderr, "%d rounds\n", rounds);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  setbuf(stdout, NULL);
  if (strcmp(argv[1], "child") == 0)
    change_in_children();
  else
    protect_beside_advice();
  return 0;
}
