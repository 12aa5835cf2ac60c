/* A module with a thread-local variable. */
#include <wherry/wherry.h>

__thread int of_a_thread = 3;

void kernel(const wherryLaunchInfo* info, void** params) {
  (void)info;
  *(int*)params[0] = of_a_thread;
}
