// A program that knows nothing of Wherry and starts other programs in every way that Linux has,
// with large memory that it still uses afterwards.
//
// Usage: processes [child CODE]
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (6u << 20)

extern char** environ;

static int code_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static unsigned sum_of(const unsigned char* memory) {
  unsigned sum = 0;
  for (size_t i = 0; i < BYTES; ++i) sum = sum * 31 + memory[i];
  return sum;
}

int main(int argc, char** argv) {
  unsigned char* const memory = malloc(BYTES);
  for (size_t i = 0; i < BYTES; ++i) memory[i] = (unsigned char)(i / 4096);
  if (argc == 3) {
    printf("child %s %u\n", argv[2], sum_of(memory));
    return atoi(argv[2]);
  }
  setbuf(stdout, NULL);
  char* child[] = {argv[0], "child", "11", NULL};
  pid_t process = 0;
  if (posix_spawn(&process, argv[0], NULL, NULL, child, environ) == 0)
    printf("posix_spawn %d\n", code_of(process));
  process = vfork();
  if (process == 0) {
    execv(argv[0], child);
    _exit(127);
  }
  printf("vfork %d\n", code_of(process));
  process = fork();
  if (process == 0) {
    memset(memory, 1, BYTES / 2);
    child[2] = "12";
    execv(argv[0], child);
    _exit(127);
  }
  printf("fork and exec %d\n", code_of(process));
  process = fork();
  if (process == 0) {
    const unsigned before = sum_of(memory);
    memset(memory, 9, BYTES);
    // A grandchild has copies of the child's copies.
    const pid_t second = fork();
    if (second == 0) {
      printf("grandchild %u\n", sum_of(memory));
      _exit(14);
    }
    printf("child of the child %d\n", code_of(second));
    free(memory);
    unsigned char* const other = malloc(BYTES);
    memset(other, 5, BYTES);
    printf("fork %u %u\n", before, sum_of(other));
    _exit(13);
  }
  printf("fork %d\n", code_of(process));
  printf("system %d\n", WEXITSTATUS(system("echo from the shell; exit 15")));
  FILE* const pipe = popen("echo through a pipe", "r");
  char line[64] = "";
  if (pipe == NULL || fgets(line, sizeof line, pipe) == NULL) return 1;
  pclose(pipe);
  printf("popen %s", line);
  printf("own %u\n", sum_of(memory));
  child[2] = "16";
  execv(argv[0], child);
  return 1;
}
