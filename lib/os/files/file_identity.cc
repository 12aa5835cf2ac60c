#include "os/files/file_identity.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "os/files/fd.h"

namespace wherry::impl {

FileIdentity identity_of(const struct stat& status) {
  return {std::uint64_t{major(status.st_dev)} << 32 | minor(status.st_dev), status.st_ino};
}

FileIdentity identify_file(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno(errno, "fstat");
  return identity_of(status);
}

}  // namespace wherry::impl
