#include "support/nobody.h"

#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace wherry::test {

void become_nobody() {
  if (::geteuid() != 0) return;
  constexpr unsigned nobody = 65534;
  if (::setgroups(0, nullptr) != 0 || ::setgid(nobody) != 0 || ::setuid(nobody) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot become nobody");
  ::prctl(PR_SET_DUMPABLE, 1);  // otherwise /proc/self would still belong to root
}

}  // namespace wherry::test
