#include "os/memory/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "os/files/fd.h"
#include "os/memory/mapping.h"
#include "os/process/resource_limits.h"

namespace wherry::impl {

void* map_shared(int fd, std::size_t bytes, Access access, const std::string& name) {
  // Inaccessible until munlock(), because after mlockall(MCL_FUTURE) Linux would create every page.
  void* const start = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) throw_errno(errno, "mmap of " + name);
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  int error = ::munlock(start, bytes) == 0 ? 0 : errno;
  if (error == 0) error = leave_out_of_core_dumps(address, bytes);
  if (error == 0) error = set_access(address, bytes, access);
  if (error == 0) return start;
  ::munmap(start, bytes);
  throw_errno(error, "mmap of " + name);
}

SharedMemory::SharedMemory(const std::string& name, std::size_t bytes) {
  const Fd file(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!file) throw_errno(errno, "memfd_create " + name);
  if (const int error = set_file_size(file.get(), bytes)) throw_errno(error, "size of " + name);
  start_ = map_shared(file.get(), bytes, Access::write, name);
  bytes_ = bytes;
}

SharedMemory::~SharedMemory() {
  if (start_ != nullptr) ::munmap(start_, bytes_);
}

void SharedMemory::hide_from_forks() const {
  ::madvise(start_, bytes_, MADV_DONTFORK);
}

}  // namespace wherry::impl
