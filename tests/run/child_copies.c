// A program that knows nothing of Wherry. Its forked children change large memory that they got
// from the parent, by calls that have other effects on the mapping of a file.
#include <fcntl.h>
#include <string.h>

#include "bounded.h"

#define BYTES (4 * MIB)

static char* memory;

static char* room(void) {
  return mmap(NULL, 4 * BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void say(const char* what, int result, int first, int last) {
  printf("%s: %s %d %d\n", what, result == 0 ? "done" : strerror(errno), first, last);
}

static void grow_to_a_place(void) {
  char* const place = room();
  char* const moved = mremap(memory, BYTES, 2 * BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  say("grown to a place", moved == place ? 0 : -1, moved[0], moved[2 * BYTES - 1]);
}

static void move_without_unmapping(void) {
  const int flags = MREMAP_MAYMOVE | 4;                           // MREMAP_DONTUNMAP
  char* const moved = mremap(memory, BYTES, BYTES, flags, NULL);  // newer C libraries read NULL
  say("moved, still mapped", moved == MAP_FAILED ? -1 : 0, moved[9], memory[9]);
}

static void drop_shared_mapping(void) {
  const int file = memfd_create("shared", MFD_CLOEXEC);
  if (ftruncate(file, MIB) != 0) exit(1);
  char* const shared = mmap(memory, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  shared[1] = 11;
  const int result = madvise(shared, MIB, MADV_DONTNEED);
  say("file in its place", result, shared[1], memory[MIB]);
}

static void drop_locked(void) {
  if (mlock(memory, 4096) != 0) perror("mlock");
  const int result = madvise(memory, 4096, MADV_DONTNEED);
  say("locked", result, memory[0], memory[4096]);
}

static void drop(void) {
  const int result = madvise(memory, BYTES / 2, MADV_DONTNEED);
  say("dropped", result, memory[0], memory[BYTES / 2]);
}

static void grow_without_rights(void) {
  if (mprotect(memory, BYTES, PROT_NONE) != 0) perror("mprotect");
  char* const moved = mremap(memory, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED || mprotect(moved, 2 * BYTES, PROT_READ) != 0) perror("grow");
  say("grown without rights", 0, moved[5], moved[2 * BYTES - 1]);
}

int main(void) {
  void (*const changes[])(void) = {
      grow_to_a_place,    move_without_unmapping, drop_shared_mapping, drop_locked, drop,
      grow_without_rights};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; ++i) {
    // Two mappings, so that the file with the child's copies goes on behind the first one's.
    memory = map(BYTES);
    char* const next = map(BYTES);
    memset(memory, 5, BYTES);
    memset(next, 6, BYTES);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      changes[i]();
      fflush(stdout);
      _exit(next[7]);
    }
    printf("child: %d\n", code_of(child));
    munmap(memory, BYTES);
    munmap(next, BYTES);
  }
}
