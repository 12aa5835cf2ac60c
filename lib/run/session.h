// The library's life in a program that knows nothing of it. It starts at the program's first large
// allocation; before its second thread, if threads may count as devices; or when it is loaded, if
// another malloc than the C library's serves the program. It reports at the end.
#pragma once

namespace wherry::run {

// Whether managed memory can be allocated now. Starts the library at the first call. False on
// threads of the library, while another thread starts it, if it cannot start, and in children that
// were forked after it had begun to start.
bool is_running();
// Like is_running(), but does not start the library.
bool has_started();
// Whether Linux does not serve faults inside the program's system calls. Then libwherry_io prepares
// their memory, and memory that Linux or the C library uses unseen is ordinary.
bool calls_must_be_helped();
// Makes the calling thread able to allocate managed memory.
bool use_context();
// Called in a forked child: if the library had begun to start in the parent, all memory is ordinary
// from now on.
void become_child();
// Counts a forked child, for which this many bytes were copied.
void note_fork_copies(unsigned long bytes);

}  // namespace wherry::run
