/* Loads each library of its command line, initializes it, and unloads it again, as programs do that
 * check for devices. Then does things in which a library that is still active would take part:
 * waits, forks, raises a signal with a handler. Prints "unloaded ok". */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t signals = 0;

static void count_signal(int signal) {
  (void)signal;
  signals = signals + 1;
}

/* Returns 0, or the error of the library's first call. */
static int start(void* library) {
  int (*initialize)(unsigned);
  int (*free_memory)(void*);
  *(void**)&initialize = dlsym(library, "cuInit");
  *(void**)&free_memory = dlsym(library, "cudaFree");
  if (initialize != NULL) return initialize(0);
  return free_memory != NULL ? free_memory(NULL) : 0;
}

int main(int words, char** word) {
  for (int i = 1; i < words; ++i) {
    void* const library = dlopen(word[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 2;
    }
    const int result = start(library);
    if (result != 0) {
      fprintf(stderr, "%s: %d\n", word[i], result);
      return 3;
    }
    if (dlclose(library) != 0) return 2;
    usleep(200 * 1000);
  }
  signal(SIGUSR1, count_signal);
  signal(SIGSEGV, count_signal);
  raise(SIGUSR1);
  raise(SIGSEGV);
  const pid_t child = fork();
  if (child == 0) _exit(7);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
      WEXITSTATUS(status) != 7)
    return 2;
  usleep(200 * 1000);
  if (signals != 2) return 2;
  printf("unloaded ok\n");
  return 0;
}
