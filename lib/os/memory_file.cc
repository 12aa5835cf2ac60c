#include "os/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "os/numa.h"

namespace wherry::impl {

MemoryFile::MemoryFile(const std::string& name, std::size_t bytes)
    : fd_(::memfd_create(name.c_str(), MFD_CLOEXEC)) {
  if (!fd_) throw_errno(errno, "memfd_create " + name);
  if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0)
    throw_errno(errno, "cannot size pool file " + name);
}

int MemoryFile::punch(std::uint64_t offset, std::uint64_t bytes) const {
  while (::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int MemoryFile::prefer_nodes(std::uint64_t offset, std::uint64_t bytes,
                             std::span<const int> nodes) const {
  void* view = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd_.get(),
                      static_cast<off_t>(offset));
  if (view == MAP_FAILED) return errno;
  const int error = prefer_shared(view, bytes, nodes);
  ::munmap(view, bytes);
  return error;
}

std::uint64_t MemoryFile::allocated_bytes() const {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

}  // namespace wherry::impl
