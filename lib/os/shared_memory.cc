#include "os/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "os/fd.h"

namespace wherry::impl {

SharedMemory::SharedMemory(const std::string& name, std::size_t bytes) {
  const Fd file(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!file) throw_errno(errno, "memfd_create " + name);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw_errno(errno, "size of " + name);
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (start == MAP_FAILED) throw_errno(errno, "mmap of " + name);
  start_ = start;
  bytes_ = bytes;
}

SharedMemory::~SharedMemory() {
  if (start_ != nullptr) ::munmap(start_, bytes_);
}

void SharedMemory::hide_from_forks() const {
  ::madvise(start_, bytes_, MADV_DONTFORK);
}

}  // namespace wherry::impl
