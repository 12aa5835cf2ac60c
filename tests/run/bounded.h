// For programs that a defect could make wait for ever: the program ends after 60 seconds, and no
// forked child outlives it.
#pragma once

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ul << 20)

static void limit_time(void) {
  alarm(60);
}
// Called before the constructors of all libraries, which may wait for ever too.
__attribute__((section(".preinit_array"), used)) static void (*const limit)(void) = limit_time;

static inline double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline char* map(size_t bytes) {
  char* const memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    perror("mmap");
    exit(1);
  }
  return memory;
}

// The child's exit code, or its signal as a negative number: SIGKILL's if it has not ended after 30
// seconds. Signal handlers may call this.
static inline int code_of(pid_t child) {
  if (child < 0) return 1000;
  const double end = seconds() + 30;
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0 && seconds() < end) usleep(200);
  if (ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
