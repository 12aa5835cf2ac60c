#include "passes.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define PAGES_AT_ONCE 64

// The phases of the passes, and how many passes each has at least.
enum Phase {
  FIRST,
  SETTLING,
  LAST,
  OVER
};
static const unsigned least_passes[] = {2, 2, 4};

static struct {
  atomic_ulong local;
  atomic_ulong all;
} pages_in[OVER];

static double settling_seconds;
static double settling_since;
static pthread_barrier_t barrier;
// One thread changes these while the others wait.
static enum Phase phase;
static unsigned passes_of_phase;
static unsigned passes;
static unsigned wrong_passes;
static uint64_t checksum;
static atomic_uint_fast64_t results;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void begin_passes(const char* seconds) {
  settling_seconds = atof(seconds);
  pthread_barrier_init(&barrier, NULL, THREADS);
}

size_t first_of(size_t count, unsigned thread) {
  return count * thread / THREADS;
}

void pin_to_cpu(unsigned thread) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(thread, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) perror("sched_setaffinity"), exit(1);
}

void wait_for_all(void) {
  pthread_barrier_wait(&barrier);
}

void note_use(const void* memory, size_t bytes) {
  static _Thread_local uint64_t random = 88172645463325252ull;
  if (phase == SETTLING) return;
  const uintptr_t start = ((uintptr_t)memory + PAGE - 1) / PAGE * PAGE;
  const uintptr_t count = ((uintptr_t)memory + bytes - start) / PAGE;
  void* pages[PAGES_AT_ONCE];
  int nodes[PAGES_AT_ONCE];
  for (unsigned i = 0; i < PAGES_AT_ONCE; ++i) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    pages[i] = (void*)(start + (random >> 33) % count * PAGE);
  }
  unsigned cpu = 0, node = 0;
  syscall(SYS_getcpu, &cpu, &node, NULL);
  if (syscall(SYS_move_pages, 0, PAGES_AT_ONCE, pages, NULL, nodes, 0) != 0)
    perror("move_pages"), exit(1);
  for (unsigned i = 0; i < PAGES_AT_ONCE; ++i) {
    if (nodes[i] < 0) continue;  // it is not mapped just now
    pages_in[phase].all += 1;
    pages_in[phase].local += nodes[i] == (int)node;
  }
}

static void end_pass(void) {
  const uint64_t sum = atomic_exchange(&results, 0);
  if (passes == 0) checksum = sum;
  if (sum != checksum) ++wrong_passes;
  ++passes;
  if (++passes_of_phase < least_passes[phase]) return;
  if (phase == SETTLING && now() - settling_since < settling_seconds) return;
  ++phase;
  passes_of_phase = 0;
  settling_since = now();
}

int goes_on(uint64_t result) {
  results += result;
  if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) end_pass();
  pthread_barrier_wait(&barrier);
  return phase != OVER;
}

static void print_pages(const char* name, enum Phase some) {
  printf("%s: %lu of %lu pages local\n", name, pages_in[some].local, pages_in[some].all);
}

int report_passes(void) {
  printf("checksum %016llx\n", (unsigned long long)checksum);
  printf("passes %u, of them wrong %u\n", passes, wrong_passes);
  print_pages("first", FIRST);
  print_pages("last", LAST);
  return wrong_passes == 0 ? 0 : 1;
}
