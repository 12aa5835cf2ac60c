// Files with 2 MiB pages, on a tmpfs of their own that is attached nowhere, so that the program's
// mounts do not change. To make one needs CAP_SYS_ADMIN in some user namespace: in the program's
// own, or in one that a short-lived helper makes (os/process/helper_call.h), which Linux permits to
// ordinary users unless the machine is configured otherwise.
#pragma once

#include <string>
#include <vector>

#include "os/files/fd.h"

namespace wherry::impl {

struct HugeTmpfsFiles {
  enum class Way {
    none,
    own_privilege,   // CAP_SYS_ADMIN
    user_namespace,  // of a helper
  };

  std::vector<Fd> files;  // empty if `way` is none
  Way way = Way::none;
  // If `way` is none: the system call that the helper could not make, and its errno.
  const char* refused = "";
  int error = 0;

  // Returns the first file, or an empty Fd if there is none.
  Fd take_only() && { return files.empty() ? Fd() : std::move(files.front()); }
};

// Creates `count` empty files of that name on one tmpfs, closed on exec. Any thread. Throws
// std::system_error if there is no memory for the helper's stack.
HugeTmpfsFiles create_on_huge_tmpfs(const std::string& name, unsigned count = 1);

// If `way` is none: "fsopen is refused (Operation not permitted)".
std::string reason_of(const HugeTmpfsFiles& refused);

}  // namespace wherry::impl
