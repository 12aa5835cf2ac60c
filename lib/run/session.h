// The library's life in a program that knows nothing of it: it starts at the program's first large
// allocation, or before its second thread where threads may count as devices, or when it is loaded
// if the C library's malloc does not serve the program; and it reports at the end.
#pragma once

namespace wherry::run {

// Whether managed memory is to be had now. Starts the library at the first call. False on threads
// of the library, while another thread starts it, if it cannot start, and in children that were
// forked after it had begun to start.
bool is_running();
// The same without a start.
bool has_started();
// Whether Linux does not find memory that is elsewhere in the program's system calls, so that
// libwherry_io prepares it, and memory that Linux or the C library use unseen is ordinary.
bool calls_must_be_helped();
// Makes the calling thread able to allocate managed memory.
bool use_context();
// This process is a forked child: if the library had begun to start in the parent, all memory is
// ordinary from now on.
void become_child();
// How many bytes were copied for forked children, and for how many.
void note_fork_copies(unsigned long bytes);

}  // namespace wherry::run
