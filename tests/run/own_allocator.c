// A program with an allocator of its own, which takes memory by mmap in chunks and gives back what
// it does not need, as large allocators do. It holds its lock meanwhile: a library that allocates
// in its own mmap waits for ever.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "bounded.h"

#define CHUNK (4ul << 20)
#define THREADS 3

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char* chunk;
static size_t used;

// Memory at a multiple of CHUNK: too much is mapped, and both ends are unmapped again.
static unsigned char* map_chunk(void) {
  unsigned char* const wide =
      mmap(NULL, 2 * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (wide == MAP_FAILED) return NULL;
  unsigned char* const start = (unsigned char*)(((uintptr_t)wide + CHUNK - 1) / CHUNK * CHUNK);
  if (start != wide) munmap(wide, (size_t)(start - wide));
  munmap(start + CHUNK, (size_t)(wide + CHUNK - start));
  return start;
}

static void* allocate(size_t bytes) {
  bytes = (bytes + 15) / 16 * 16;
  if (bytes > CHUNK) {
    void* const large =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return large == MAP_FAILED ? NULL : large;
  }
  if (chunk == NULL || used + bytes > CHUNK) {
    chunk = map_chunk();
    used = 0;
    if (chunk == NULL) return NULL;
  }
  used += bytes;
  return chunk + used - bytes;
}

void* malloc(size_t bytes) {
  pthread_mutex_lock(&lock);
  void* const memory = allocate(bytes);
  pthread_mutex_unlock(&lock);
  return memory;
}
void free(void* memory) {
  (void)memory;
}
void* calloc(size_t count, size_t each) {
  void* const memory = malloc(count * each);
  return memory == NULL ? NULL : memset(memory, 0, count * each);
}
void* realloc(void* memory, size_t bytes) {
  void* const larger = malloc(bytes);
  if (memory != NULL && larger != NULL) memmove(larger, memory, bytes);
  return larger;
}

static void* allocate_in_thread(void* unused) {
  for (int i = 0; i < 1000; ++i) memset(malloc(3000), 1, 3000);
  return unused;
}

int main(void) {
  unsigned sum = 0;
  unsigned char* all[200];
  for (int i = 0; i < 200; ++i) {
    all[i] = malloc(100000u + (unsigned)i);
    memset(all[i], i, 100000u + (unsigned)i);
  }
  // An idle chunk is given up, and reads as zeros.
  if (madvise(chunk, CHUNK, MADV_DONTNEED) != 0) return 1;
  for (size_t i = 0; i < CHUNK; i += 4096) sum += chunk[i];
  for (int i = 0; i < 150; ++i) sum = sum * 31 + all[i][99999];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, allocate_in_thread, NULL);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  printf("%u\n", sum);
  return 0;
}
