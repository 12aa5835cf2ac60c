// The CPU on which a thread runs, read by another thread without a system call. Linux writes the
// number into the thread's rseq area (rseq(2)) whenever it returns the thread to user mode; the C
// library (glibc 2.35 and later) registers the area for each thread, unless a tunable
// (glibc.pthread.rseq=0), valgrind or a seccomp filter prevents that.
#pragma once

#include <cstdint>

namespace wherry::impl {

// Where Linux keeps the number of the calling thread's CPU. Null if the C library has registered no
// area for the thread. Valid until the thread ends. Async-signal-safe.
const std::uint32_t* current_cpu_word();

// Reads the word of a thread that has not ended. Returns -1 if the CPU is unknown.
// Async-signal-safe.
int read_cpu(const std::uint32_t* word);

}  // namespace wherry::impl
