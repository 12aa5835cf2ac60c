// The cost of a wait for another thread and of a system call, without the library. Each function
// returns the median in microseconds.
#pragma once

namespace wherry::bench {

// Two threads wake each other by turns with futex(2). The time there and back.
double futex_round_trip_us();
// A thread gives another one work through a mutex and a condition variable, as thread pools do, and
// waits until it is done.
double thread_pool_round_trip_us();
// A system call that does nothing: getppid(2).
double system_call_us();
// Forks a process that exits, and waits for it.
double fork_round_trip_us();
// The time for each page to map 2 MiB of a file with page table entries: mmap(2) with MAP_POPULATE
// over reserved memory.
double map_page_us();

}  // namespace wherry::bench
