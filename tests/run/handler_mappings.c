// A program that knows nothing of Wherry, whose signal handler maps large memory at any moment of
// the calls that it interrupts. Writes to stderr how many of the handler's mappings are aligned to
// 2 MiB, as those of `wherry run` are, and how many are not, as those of Linux for such a size;
// then whether the thread can be cancelled as before.
#include <pthread.h>
#include <stdint.h>

#include "bounded.h"

static const size_t bytes = MIB + 4096;
static volatile int aligned, others;

static void map_in_handler(int signal) {
  (void)signal;
  const int error = errno;
  char* const memory = map(bytes);
  if ((uintptr_t)memory % (2 * MIB) == 0)
    ++aligned;
  else
    ++others;
  munmap(memory, bytes);
  errno = error;
}

int main(void) {
  char* const first = map(4 * MIB);
  const struct sigaction action = {.sa_handler = map_in_handler, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return 3;
  const double end = seconds() + 2;
  // Intervals that differ, so that the signal comes at different instructions.
  for (int i = 0; seconds() < end; ++i) {
    const int before = aligned + others;
    const struct itimerspec once = {.it_value = {.tv_nsec = 20000 + i * 709 % 50000}};
    timer_settime(timer, 0, &once, NULL);
    while (aligned + others == before) {
      // A short call that the preloaded library handles.
      madvise(first, 4096, MADV_NORMAL);
    }
  }
  fprintf(stderr, "%d aligned, %d others\n", aligned, others);
  int state = PTHREAD_CANCEL_DISABLE;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  puts(state == PTHREAD_CANCEL_ENABLE ? "can be cancelled" : "cannot be cancelled");
  return 8;
}
