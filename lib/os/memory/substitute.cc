#include "os/memory/substitute.h"

#include <sys/mman.h>

#include <cerrno>

#include "os/files/fd.h"

namespace wherry::impl {

Substitute::Substitute(std::size_t bytes, int fd, std::uint64_t offset) : bytes_(bytes) {
  const int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* start =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, fd, static_cast<off_t>(offset));
  if (start == MAP_FAILED) throw_errno(errno, "cannot map memory that replaces other memory");
  start_ = static_cast<std::byte*>(start);
}

Substitute::~Substitute() {
  if (bytes_ != 0) ::munmap(start_, bytes_);
}

int Substitute::move_to(std::uintptr_t address, std::size_t bytes, Access access) {
  if (access != Access::write)
    if (const int error = set_access(reinterpret_cast<std::uintptr_t>(start_), bytes, access))
      return error;
  if (const int error = move_mapping(start_, bytes, address)) return error;
  start_ += bytes;
  bytes_ -= bytes;
  return 0;
}

void Substitute::skip(std::size_t bytes) {
  ::munmap(start_, bytes);
  start_ += bytes;
  bytes_ -= bytes;
}

}  // namespace wherry::impl
