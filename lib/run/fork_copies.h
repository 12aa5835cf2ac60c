// A child of fork() gets a private copy of the program's managed memory, as of all its private
// memory. The parent copies that memory into a memfd just before the fork, and the child maps the
// file in its place. Most children call exec soon, and never use the copy.
//
// In a mapping of a file, calls such as madvise(MADV_DONTNEED) and mremap() have other effects than
// in anonymous memory. So a copy becomes anonymous memory before such a call concerns it. No other
// thread may write to it meanwhile: all copies become anonymous before the child's second thread.
#pragma once

namespace wherry::run {

// Registers this library's fork handlers (pthread_atfork) before those of all others: then the copy
// is made last before the fork, and the child has its memory before any other handler runs in it.
// Further calls do nothing.
void prepare_forks();

}  // namespace wherry::run
