// A program that knows nothing of Wherry: a thread whose cancellation is pending calls a function
// that is no cancellation point. The call must do its work, and the thread must not end in it.
//
// Usage: cancelled_calls CALL
#include <pthread.h>
#include <string.h>

#include "bounded.h"

#define BYTES (8 * MIB)

static const char* call;
static int is_done;
static int result = 1000;

static int is_call(const char* name) {
  return strcmp(call, name) == 0;
}

// Returns 0 if the call did what Linux promises, 1 if not, and 2 if the call is unknown.
static int call_it(char* memory) {
  if (is_call("malloc")) {
    char* const other = malloc(BYTES);
    if (other == NULL) return 1;
    memset(other, 2, BYTES);
    free(other);
    return 0;
  }
  if (is_call("realloc")) {
    char* const shorter = malloc(BYTES);
    memset(shorter, 2, BYTES);
    char* const longer = realloc(shorter, 12 * BYTES);
    if (longer == NULL || longer[BYTES - 1] != 2) return 1;
    free(longer);
    return 0;
  }
  if (is_call("mmap")) {
    char* const other = map(BYTES);
    other[0] = 1;
    return munmap(other, BYTES) != 0;
  }
  if (is_call("fixed mmap"))
    return mmap(memory, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
               memory ||
           memory[0] != 0;
  if (is_call("munmap")) return munmap(memory, BYTES) != 0;
  if (is_call("partial munmap")) return munmap(memory, MIB) != 0 || memory[MIB] != 1;
  if (is_call("mprotect")) return mprotect(memory, 4096, PROT_READ) != 0;
  if (is_call("mremap")) {
    char* const moved = mremap(memory, BYTES, 5 * BYTES, MREMAP_MAYMOVE);
    return moved == MAP_FAILED || moved[BYTES - 1] != 1 || moved[BYTES] != 0;
  }
  if (is_call("madvise")) return madvise(memory, BYTES, MADV_DONTNEED) != 0 || memory[0] != 0;
  if (is_call("mlock")) return mlock(memory, 4096) != 0;
  if (is_call("fork")) {
    const pid_t child = fork();
    if (child == 0) _exit(memory[BYTES - 1] + 2);
    // waitpid is a cancellation point.
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    const int code = code_of(child);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    return code != 3;
  }
  return 2;
}

static void* cancel_and_call(void* memory) {
  pthread_cancel(pthread_self());
  result = call_it(memory);
  is_done = 1;
  pthread_testcancel();
  is_done = 2;
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  call = argv[1];
  char* const memory = map(BYTES);
  memset(memory, 1, BYTES);
  pthread_t thread;
  pthread_create(&thread, NULL, cancel_and_call, memory);
  void* returned = NULL;
  pthread_join(thread, &returned);
  printf("result %d done %d cancelled %d\n", result, is_done, returned == PTHREAD_CANCELED);
  // No lock is left behind.
  free(malloc(BYTES));
  printf("allocated\n");
  return 0;
}
