#include "runtime/fork_hooks.h"

#include "os/files/fd.h"
#include "trace/recorder.h"

namespace wherry::impl {

void ForkHooks::before() {
  host_memory_.note_fork();
  adopted().before_fork();
  begin_fork_of_descriptors();
}

void ForkHooks::after() {
  end_fork_of_descriptors();
  adopted().after_fork(/*child_copies=*/true);
}

void ForkHooks::after_in_child() {
  forget_recording();
  adopted().after_fork_in_child();
  variables_.copy_in_forked_child();
  // Closed last: the copies are read from the pools' files.
  close_own_descriptors();
}

}  // namespace wherry::impl
