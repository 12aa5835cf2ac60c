// What a wait for another thread, and what a system call costs, without the library. Each function
// returns the median in microseconds.
#pragma once

namespace wherry::bench {

// Two threads wake each other by turns with futex(2): there and back.
double futex_round_trip_us();
// A thread gives another one work through a mutex and a condition variable, as thread pools do, and
// waits until it is done.
double thread_pool_round_trip_us();
// A system call that does nothing: getppid(2).
double system_call_us();
// A process is forked, exits, and is waited for.
double fork_round_trip_us();
// For each page of a part of 2 MiB of a file that is mapped with its page table entries: mmap(2)
// with MAP_POPULATE over reserved memory.
double map_page_us();

}  // namespace wherry::bench
