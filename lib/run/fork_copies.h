// A child of fork() gets private copies of the program's managed memory, as of all its other
// private memory. The parent copies it into a file in memory just before the fork, and the child
// maps the file in its place.
#pragma once

namespace wherry::run {

// Call it before other code registers handlers (pthread_atfork): then the copy is the last thing
// that happens before the fork.
void prepare_forks();

}  // namespace wherry::run
