// Linux has no syscall user dispatch for this architecture, which fork_sibling() would need.
#include "os/process/sibling_fork.h"

#include <unistd.h>

namespace wherry::impl {

bool can_fork_sibling() {
  return false;
}

pid_t fork_sibling(bool& sibling) {
  sibling = false;
  return ::fork();
}

}  // namespace wherry::impl
