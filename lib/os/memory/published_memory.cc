#include "os/memory/published_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "os/memory/shared_memory.h"
#include "os/process/resource_limits.h"

namespace wherry::impl {

PublishedMemory::PublishedMemory(const std::string& name, std::size_t bytes, Fd* kept)
    : bytes_(bytes) {
  Fd file(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw_errno(errno, "memfd_create " + name);
  if (const int error = set_file_size(file.get(), bytes)) throw_errno(error, "size of " + name);
  start_ = map_shared(file.get(), bytes, Access::write, name);
  try {
    // With F_SEAL_FUTURE_WRITE the existing writable mapping stays writable, and no new one can be
    // created. Linux before 5.1 lacks this seal; there a process can make its read-only mapping
    // writable.
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    if (::fcntl(file.get(), F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) != 0 &&
        ::fcntl(file.get(), F_ADD_SEALS, seals) != 0)
      throw_errno(errno, "F_ADD_SEALS of " + name);
    if (::madvise(start_, bytes, MADV_DONTFORK) != 0) throw_errno(errno, "madvise of " + name);
    shown_ = map_shared(file.get(), bytes, Access::read, name);
    if (kept != nullptr) *kept = std::move(file);
  } catch (...) {
    ::munmap(start_, bytes);
    throw;
  }
}

PublishedMemory::~PublishedMemory() {
  ::munmap(start_, bytes_);
  ::munmap(shown_, bytes_);
}

}  // namespace wherry::impl
