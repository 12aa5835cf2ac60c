// A program that knows nothing of Wherry, with uses of memory that are rare and legal: it prints
// what Linux answers.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define MIB (1ul << 20)

static char* map(size_t bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void say(const char* what, long result) {
  printf("%s %ld errno %d\n", what, result, result == -1 ? errno : 0);
}

static int in_child(int (*body)(char*), char* memory) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(body(memory));
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void unmap_twice(void) {
  for (int i = 0; i < 20; ++i) {
    char* const memory = map(8 * MIB);
    memset(memory, 1, 8 * MIB);
    munmap(memory + 2 * MIB, 2 * MIB);
    say("unmapped over a hole", munmap(memory, 8 * MIB));
  }
}

static void map_in_hole(void) {
  char* const memory = map(8 * MIB);
  munmap(memory + 2 * MIB, 2 * MIB);
  char* const inside = mmap(memory + 2 * MIB, 2 * MIB, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  memset(inside, 5, 2 * MIB);
  munmap(memory, 2 * MIB);
  munmap(memory + 4 * MIB, 4 * MIB);
  char* const other = map(8 * MIB);
  memset(other, 6, 8 * MIB);
  long wrong = 0;
  for (size_t i = 0; i < 2 * MIB; ++i) wrong += inside[i] != 5;
  say("wrong bytes in a hole", wrong);
  munmap(inside, 2 * MIB);
  munmap(other, 8 * MIB);
}

static void name_holes(void) {
  char* const memory = map(4 * MIB);
  memset(memory, 3, 4 * MIB);
  munmap(memory + MIB, MIB);
  say("mprotect over a hole", mprotect(memory, 4 * MIB, PROT_READ));
  say("madvise over a hole", madvise(memory, 4 * MIB, MADV_DONTNEED));
  printf("%d %d\n", memory[0], memory[3 * MIB]);
  // Linux refuses these before it looks at the range, or in a part beside the hole.
  say("advice that does not exist over a hole", madvise(memory, 4 * MIB, 999));
  say("advice that does not exist in a hole", madvise(memory + MIB, MIB, 999));
  say("access that does not exist over a hole", mprotect(memory, 4 * MIB, 1 << 10));
  say("madvise in a hole", madvise(memory + MIB, MIB, MADV_DONTNEED));
  say("unmapped", munmap(memory, 4 * MIB));
}

static int change_copies(char* memory) {
  if (memory[5] != 2 || memory[3 * MIB] != 2) return 1;
  if (madvise(memory, MIB, MADV_DONTNEED) != 0 || memory[5] != 0) return 2;
  if (madvise(memory + MIB, MIB, MADV_FREE) != 0) return 3;
  char* const longer = mremap(memory, 4 * MIB, 9 * MIB, MREMAP_MAYMOVE);
  if (longer == MAP_FAILED || longer[3 * MIB] != 2 || longer[4 * MIB] != 0) return 4;
  longer[9 * MIB - 1] = 1;
  return 10;
}

// Linux refuses all of these.
static void give_wrong_arguments(void) {
  char* const memory = map(4 * MIB);
  memset(memory, 4, 4 * MIB);
  say("advice that does not exist", posix_madvise(memory, 4 * MIB, 999));
  char* const other =
      mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 123);
  say("an offset inside of a page", other == MAP_FAILED ? -1 : 0);
  munmap(memory + MIB, MIB);
  char* const moved = mremap(memory + MIB, MIB, 2 * MIB, MREMAP_MAYMOVE);
  say("a remapping of a hole", moved == MAP_FAILED ? -1 : 0);
  munmap(memory, 4 * MIB);
  // Linux rounds the address down and the end up, so it reaches beyond the end of the mapping.
  char* const pair = map(8 * MIB);
  munmap(pair + 4 * MIB, 4 * MIB);
  say("a lock beyond the end", mlock(pair + 5, 4 * MIB));
  munmap(pair, 4 * MIB);
}

// A coroutine whose stack is large memory of the program.
static ucontext_t back, coroutine;
static char* stack;
static int answer_of_coroutine;

static void guard_own_stack(void) {
  answer_of_coroutine = mprotect(stack, 4096, PROT_NONE);
  swapcontext(&coroutine, &back);
}
static int return_11(char* memory) {
  (void)memory;
  char local[100];
  memset(local, 1, sizeof local);
  return local[50] + 10;
}
static void fork_on_own_stack(void) {
  answer_of_coroutine = in_child(return_11, NULL);
  swapcontext(&coroutine, &back);
}
static void on_large_stack(const char* what, void (*function)(void)) {
  stack = map(4 * MIB);
  getcontext(&coroutine);
  coroutine.uc_stack.ss_sp = stack;
  coroutine.uc_stack.ss_size = 4 * MIB;
  coroutine.uc_link = &back;
  makecontext(&coroutine, function, 0);
  swapcontext(&back, &coroutine);
  say(what, answer_of_coroutine);
}

static int read_copy(char* memory) {
  return memory[4 * MIB];
}

int main(void) {
  errno = 77;
  char* const first = malloc(8 * MIB);
  printf("errno %d\n", errno);
  memset(first, 9, 8 * MIB);
  unmap_twice();
  map_in_hole();
  name_holes();
  give_wrong_arguments();
  char* const copied = map(4 * MIB);
  memset(copied, 2, 4 * MIB);
  say("a child changes its copies", in_child(change_copies, copied));
  say("the parent's", copied[5] + copied[3 * MIB]);
  say("a remapping of nothing", (long)mremap(copied, 0, 4 * MIB, MREMAP_MAYMOVE));
  on_large_stack("a guard from the guarded stack", guard_own_stack);
  on_large_stack("a fork on a large stack", fork_on_own_stack);
  say("more than there is", map(1ul << 45) == MAP_FAILED ? -1 : 0);
  // No file may be as large as the memory is.
  const struct rlimit limit = {MIB, MIB};
  setrlimit(RLIMIT_FSIZE, &limit);
  say("a child, where files are small", in_child(read_copy, first));
  free(first);
  return 4;
}
