// Leaves of userfaultfd what a program gets without any privilege: user-mode-only, which does not serve faults taken
// inside system calls. Also on machines that give more (vm.unprivileged_userfaultfd=1, an accessible /dev/userfaultfd).
#pragma once

namespace wherry::test {

// For the calling thread and whatever it starts later; cannot be taken back. Needs no privilege. Throws
// std::system_error.
void leave_user_mode_only_userfaultfd();

}  // namespace wherry::test
