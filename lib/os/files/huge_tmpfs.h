// Files with 2 MiB pages, on a tmpfs of their own that is attached nowhere, so that the program's
// mounts do not change. To make one needs CAP_SYS_ADMIN in some user namespace: in the program's
// own, or in one that a short-lived helper makes (os/process/helper_call.h), which Linux permits to
// ordinary users unless the machine is configured otherwise.
#pragma once

#include <string>

#include "os/files/fd.h"

namespace wherry::impl {

struct HugeTmpfsFile {
  enum class Way {
    none,
    own_privilege,   // CAP_SYS_ADMIN
    user_namespace,  // of a helper
  };

  Fd file;
  Way way = Way::none;
  // way none: the system call that the helper could not make, and its error.
  const char* refused = "";
  int error = 0;
};

// Creates an empty file, closed on exec. Any thread. Throws std::system_error if there is no memory
// for the helper's stack.
HugeTmpfsFile create_on_huge_tmpfs(const std::string& name);

// "fsopen is refused (Operation not permitted)", for way none.
std::string reason_of(const HugeTmpfsFile& refused);

}  // namespace wherry::impl
