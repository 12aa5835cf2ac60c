// Threads that know nothing of Wherry: two of them have names. Each writes memory of its own.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (8ul << 20)

static void* work(void* name) {
  if (name != NULL) pthread_setname_np(pthread_self(), name);
  char* const memory = malloc(BYTES);
  memset(memory, 1, BYTES);
  long sum = 0;
  for (size_t i = 0; i < BYTES; i += 512) sum += memory[i];
  return (void*)sum;
}

int main(void) {
  pthread_t threads[3];
  char* names[] = {"solver-1", "solver-2", NULL};
  long sum = 0;
  for (int i = 0; i < 3; ++i) {
    pthread_create(&threads[i], NULL, work, names[i]);
    void* result = NULL;
    pthread_join(threads[i], &result);
    sum += (long)result;
  }
  printf("%ld\n", sum);
  return 0;
}
