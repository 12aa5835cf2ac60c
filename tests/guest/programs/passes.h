// For the programs beside this file, which know nothing of Wherry: their threads do the same work
// in passes, all at the same time, until memory has had time to come to its users. In the first and
// the last passes each thread asks Linux on which node pages are that it uses (move_pages), and
// compares that with the node of its CPU (getcpu). Such a page is local if the nodes are the same.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The threads of the program: one for each CPU of the virtual machine, which are two nodes'.
#define THREADS 4

// `seconds`: how long the passes between the first and the last ones take.
void begin_passes(const char* seconds);

// The part of `count` items that is this thread's.
size_t first_of(size_t count, unsigned thread);

// Keeps the calling thread on the CPU of its number.
void pin_to_cpu(unsigned thread);

// Waits for the other threads.
void wait_for_all(void);

// The calling thread uses this memory in the pass.
void note_use(const void* memory, size_t bytes);

// Each thread calls it at the end of the pass with what it computed. Returns false after the last
// pass. The sum over the threads must be the same in each pass.
int goes_on(uint64_t result);

// Prints what the passes computed and where the memory was. Returns the program's exit code.
int report_passes(void);

#ifdef __cplusplus
}
#endif
