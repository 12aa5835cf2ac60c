// A program that knows nothing of Wherry: it allocates, changes and frees memory in all the ways
// that the C library has, in an order that the seed decides, and prints what it finds there. With
// and without `wherry run` it prints the same.
//
// Usage: memory_calls SEED STEPS
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define SLOTS 12

struct Slot {
  unsigned char* memory;
  size_t bytes;
  int is_mapping;
  int is_split;  // Linux may have it as several mappings, which it does not make longer
  int readable;
  int writable;
};

static struct Slot slots[SLOTS];
static uint64_t state;
static uint64_t sum = 14695981039346656037ull;

static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static void add(uint64_t value) {
  sum = (sum ^ value) * 1099511628211ull;
}

static void fail(const char* what) {
  printf("%s failed: %s\n", what, strerror(errno));
  exit(1);
}

static size_t some_bytes(void) {
  const size_t kinds[] = {100, 5000, 70000, 300000, 1u << 20, 3u << 20, 5u << 20, 9u << 20};
  return kinds[next() % 8] + next() % 5000;
}

static void fill(struct Slot* slot) {
  if (!slot->writable) return;
  const unsigned char value = (unsigned char)next();
  for (size_t i = next() % 4096; i < slot->bytes; i += 4096) slot->memory[i] = value;
  slot->memory[slot->bytes - 1] = value;
}

static void read_all(const struct Slot* slot) {
  if (!slot->readable) return;
  uint64_t found = 0;
  for (size_t i = 0; i < slot->bytes; i += 64) found = found * 31 + slot->memory[i];
  add(found);
}

static void allocate(struct Slot* slot) {
  const size_t bytes = some_bytes();
  void* memory = NULL;
  slot->is_mapping = 0;
  switch (next() % 7) {
    case 0:
      memory = malloc(bytes);
      if (memory != NULL) memset(memory, 3, bytes);
      break;
    case 1:
      memory = calloc(bytes / 8, 8);
      break;
    case 2:
      memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
      if (memory != NULL) memset(memory, 4, bytes);
      break;
    case 3:
      if (posix_memalign(&memory, PAGE, bytes) != 0) memory = NULL;
      if (memory != NULL) memset(memory, 5, bytes);
      break;
    case 4:
      memory = realloc(NULL, bytes);
      if (memory != NULL) memset(memory, 6, bytes);
      break;
    default:
      memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) memory = NULL;
      slot->is_mapping = 1;
  }
  if (memory == NULL) fail("an allocation");
  slot->memory = memory;
  slot->bytes = bytes / 8 * 8;
  if (slot->is_mapping) slot->bytes = (slot->bytes + PAGE - 1) / PAGE * PAGE;
  slot->is_split = 0;
  slot->readable = slot->writable = 1;
  if (!slot->is_mapping && malloc_usable_size(memory) < slot->bytes) fail("malloc_usable_size");
}

static void release(struct Slot* slot) {
  if (!slot->is_mapping)
    free(slot->memory);
  else if (munmap(slot->memory, slot->bytes) != 0)
    fail("munmap");
  slot->memory = NULL;
}

static void change_mapping(struct Slot* slot) {
  const size_t pages = slot->bytes / PAGE;
  switch (next() % 9) {
    case 0: {  // less at the end
      if (pages < 4) return;
      const size_t kept = (1 + next() % (pages - 1)) * PAGE;
      if (munmap(slot->memory + kept, slot->bytes - kept) != 0) fail("munmap of the end");
      slot->bytes = kept;
      return;
    }
    case 1: {  // less at the beginning
      if (pages < 4) return;
      const size_t cut = (1 + next() % (pages - 1)) * PAGE;
      if (munmap(slot->memory, cut) != 0) fail("munmap of the beginning");
      slot->memory += cut;
      slot->bytes -= cut;
      return;
    }
    case 2: {
      const size_t bytes = (some_bytes() + PAGE - 1) / PAGE * PAGE;
      if (slot->is_split && bytes > slot->bytes) return;
      void* const moved = mremap(slot->memory, slot->bytes, bytes, MREMAP_MAYMOVE);
      if (moved == MAP_FAILED) fail("mremap");
      slot->memory = moved;
      slot->bytes = bytes;
      return;
    }
    case 3:
      if (madvise(slot->memory, slot->bytes / 2 / PAGE * PAGE, MADV_DONTNEED) != 0) fail("madvise");
      return;
    case 4:
      if (madvise(slot->memory, slot->bytes, MADV_HUGEPAGE) != 0 && errno != EINVAL)
        fail("madvise of a hint");
      return;
    case 5: {
      const int rights[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
      const int chosen = rights[next() % 3];
      if (mprotect(slot->memory, slot->bytes, chosen) != 0) fail("mprotect");
      slot->readable = chosen != PROT_NONE;
      slot->writable = (chosen & PROT_WRITE) != 0;
      return;
    }
    case 6: {  // other memory in its middle
      if (pages < 3) return;
      unsigned char* const place = slot->memory + pages / 2 * PAGE;
      if (mmap(place, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0) != place)
        fail("mmap of a fixed place");
      slot->is_split = 1;
      if (mprotect(slot->memory, slot->bytes, PROT_READ | PROT_WRITE) != 0) fail("mprotect again");
      slot->readable = slot->writable = 1;
      return;
    }
    case 7:
      if (slot->readable && mlock(slot->memory, PAGE) == 0) munlock(slot->memory, PAGE);
      return;
    default: {  // moved to a place that the program chooses
      void* const place = mmap(NULL, slot->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (place == MAP_FAILED) fail("mmap of a place");
      void* const moved =
          mremap(slot->memory, slot->bytes, slot->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
      // Linux moves no range that has parts with several rights.
      if (moved == MAP_FAILED) {
        munmap(place, slot->bytes);
        add(1);
        return;
      }
      slot->memory = moved;
    }
  }
}

static void change_object(struct Slot* slot) {
  const size_t bytes = some_bytes() / 8 * 8;
  unsigned char* const memory = realloc(slot->memory, bytes);
  if (memory == NULL) fail("realloc");
  if (bytes > slot->bytes) memset(memory + slot->bytes, 7, bytes - slot->bytes);
  slot->memory = memory;
  slot->bytes = bytes;
}

// The child reads, writes and frees its copies; the parent must not notice.
static void fork_once(void) {
  int ends[2];
  if (pipe(ends) != 0) fail("pipe");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    for (int i = 0; i < SLOTS; ++i) {
      if (slots[i].memory == NULL) continue;
      read_all(&slots[i]);
      if (slots[i].writable) memset(slots[i].memory, 0xee, slots[i].bytes);
      if (i % 2 == 0) release(&slots[i]);
    }
    char* const own = malloc(4u << 20);
    memset(own, 1, 4u << 20);
    free(own);
    if (write(ends[1], &sum, sizeof sum) != sizeof sum) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  uint64_t of_child = 0;
  if (read(ends[0], &of_child, sizeof of_child) != sizeof of_child) fail("the child");
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  add(of_child);
  add((uint64_t)status);
}

static sigjmp_buf back;
static void jump_back(int signal) {
  siglongjmp(back, signal);
}

// A guard page raises a signal that the program handles.
static void hit_guard(struct Slot* slot) {
  if (!slot->is_mapping || slot->bytes < 2 * PAGE) return;
  volatile unsigned char* const guard = slot->memory + slot->bytes - PAGE;
  if (mprotect((void*)guard, PAGE, PROT_NONE) != 0) fail("mprotect of a guard");
  const int signal = sigsetjmp(back, 1);
  if (signal == 0) *guard = 1;
  add((uint64_t)signal);
  if (mprotect(slot->memory, slot->bytes, PROT_READ | PROT_WRITE) != 0) fail("mprotect back");
  slot->readable = slot->writable = 1;
}

static void* in_thread(void* given) {
  const struct Slot* const slot = given;
  if (slot->writable)
    for (size_t i = 0; i < slot->bytes; i += 512) slot->memory[i] += 1;
  return NULL;
}

static void use_in_threads(void) {
  pthread_t threads[SLOTS];
  for (int i = 0; i < SLOTS; ++i)
    if (slots[i].memory != NULL && pthread_create(&threads[i], NULL, in_thread, &slots[i]) != 0)
      fail("pthread_create");
  for (int i = 0; i < SLOTS; ++i)
    if (slots[i].memory != NULL) pthread_join(threads[i], NULL);
}

// Linux itself reads and writes the memory.
static void use_in_calls(struct Slot* slot) {
  if (!slot->writable) return;
  int ends[2];
  if (pipe(ends) != 0) fail("pipe");
  const size_t bytes = slot->bytes < 30000 ? slot->bytes : 30000;
  if (write(ends[1], slot->memory, bytes) != (ssize_t)bytes) fail("write");
  if (read(ends[0], slot->memory + slot->bytes - bytes, bytes) != (ssize_t)bytes) fail("read");
  close(ends[0]);
  close(ends[1]);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  state = strtoull(argv[1], NULL, 10) * 2654435761u + 1;
  const long steps = strtol(argv[2], NULL, 10);
  struct sigaction action = {.sa_handler = jump_back};
  sigaction(SIGSEGV, &action, NULL);
  for (long step = 0; step < steps; ++step) {
    struct Slot* const slot = &slots[next() % SLOTS];
    const unsigned kind = (unsigned)(next() % 16);
    if (slot->memory == NULL) {
      allocate(slot);
    } else if (kind < 2) {
      release(slot);
      continue;
    } else if (kind < 8) {
      slot->is_mapping ? change_mapping(slot) : change_object(slot);
    } else if (kind == 8) {
      fork_once();
    } else if (kind == 9) {
      hit_guard(slot);
    } else if (kind == 10) {
      use_in_threads();
    } else if (kind == 11) {
      use_in_calls(slot);
    }
    read_all(slot);
    fill(slot);
    if (step % 50 == 0) printf("%ld %016llx\n", step, (unsigned long long)sum);
  }
  for (int i = 0; i < SLOTS; ++i) {
    if (slots[i].memory == NULL) continue;
    read_all(&slots[i]);
    release(&slots[i]);
  }
  printf("%016llx\n", (unsigned long long)sum);
  return 3;
}
