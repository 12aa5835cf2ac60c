// A program that knows nothing of Wherry, in an unusual state at its first large allocation, when a
// preloaded library may have work to do that fails there.
//
// Usage: first_allocation files | rights
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "bounded.h"

#define FILES 400

// ---- Another thread opens files meanwhile, which stay its own

static int files[FILES];
static volatile int count, stop;

static void* open_files(void* unused) {
  while (!stop && count < FILES) {
    const int file = eventfd(0, 0);
    if (file >= 0) files[count++] = file;
    usleep(50);
  }
  return unused;
}

static void allocate_beside_files(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, open_files, NULL);
  usleep(2000);
  char* const memory = malloc(4 * MIB);
  memory[0] = 1;
  usleep(2000);
  stop = 1;
  pthread_join(thread, NULL);
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += close(files[i]) != 0;
  printf("%d files cannot be closed\n", wrong);
  free(memory);
}

// ---- The program has given up its rights

static void say(const char* what, ssize_t result) {
  printf("%s: %zd %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static void allocate_without_rights(void) {
  if (setgroups(0, NULL) != 0 || setresgid(65534, 65534, 65534) != 0 ||
      setresuid(65534, 65534, 65534) != 0)
    perror("rights");
  const int zeros = open("/dev/zero", O_RDONLY);
  char* const object = malloc(8 * MIB);
  say("read to an object", read(zeros, object, 8 * MIB));
  char* const mapping = map(8 * MIB);
  say("read to a mapping", read(zeros, mapping, 8 * MIB));
  int ends[2];
  if (pipe(ends) != 0) exit(1);
  say("write", write(ends[1], mapping + 4 * MIB, 4096));
  const pid_t child = fork();
  if (child == 0) _exit(object[MIB] + mapping[MIB] + 7);
  printf("child: %d\n", code_of(child));
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (strcmp(argv[1], "files") == 0)
    allocate_beside_files();
  else
    allocate_without_rights();
  return 0;
}
