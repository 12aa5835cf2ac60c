// A program that knows nothing of Wherry, whose signal handler maps large memory at any moment of
// the calls that it interrupts. Writes to stderr how many of the handler's mappings lie beside the
// program's, as those of `wherry run` do, and how many elsewhere; then whether the thread can be
// cancelled as before.
#include <pthread.h>

#include "bounded.h"

static char* first;
static volatile int beside, elsewhere;

static void map_in_handler(int signal) {
  (void)signal;
  const int error = errno;
  char* const memory = map(2 * MIB);
  if (memory > first && memory < first + 1024 * MIB)
    ++beside;
  else
    ++elsewhere;
  munmap(memory, 2 * MIB);
  errno = error;
}

int main(void) {
  first = map(4 * MIB);
  const struct sigaction action = {.sa_handler = map_in_handler, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return 3;
  const double end = seconds() + 2;
  // Intervals that differ, so that the signal comes at different instructions.
  for (int i = 0; seconds() < end; ++i) {
    const int before = beside + elsewhere;
    const struct itimerspec once = {.it_value = {.tv_nsec = 20000 + i * 709 % 50000}};
    timer_settime(timer, 0, &once, NULL);
    while (beside + elsewhere == before) {
      // A call that is the library's, and short.
      madvise(first, 4096, MADV_NORMAL);
    }
  }
  fprintf(stderr, "%d beside, %d elsewhere\n", beside, elsewhere);
  int state = PTHREAD_CANCEL_DISABLE;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  puts(state == PTHREAD_CANCEL_ENABLE ? "can be cancelled" : "cannot be cancelled");
  return 8;
}
