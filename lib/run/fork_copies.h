// A child of fork() gets private copies of the program's managed memory, as of all its other
// private memory. The parent copies it into a file in memory just before the fork, and the child
// maps the file in its place. Most children call exec soon, and never use the copy.
//
// In a mapping of a file, calls such as madvise(MADV_DONTNEED) and mremap() have other effects than
// in anonymous memory. So before such a call concerns a copy, it becomes anonymous memory. No other
// thread may write to it meanwhile: all copies become anonymous before the child's second thread.
#pragma once

namespace wherry::run {

// Registers the fork handlers of this library, before those of all others (pthread_atfork): then
// the copy is the last thing that happens before the fork, and the first thing in the child is that
// it has its memory. Further calls do nothing.
void prepare_forks();

}  // namespace wherry::run
