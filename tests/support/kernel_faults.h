// A machine whose kernel grants userfaultfd for faults in user mode only, as it does to who has no privilege.
#pragma once

namespace wherry::test {

// From now on, for this thread and for what it forks and starts: userfaultfd only with UFFD_USER_MODE_ONLY. Needs no
// privilege, and works where there is one, too. Throws std::system_error.
void forbid_kernel_faults();

}  // namespace wherry::test
