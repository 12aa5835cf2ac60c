#include "os/memory/private_copy.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "os/arch/cpu.h"
#include "os/kernel_abi.h"
#include "os/process/resource_limits.h"

namespace wherry::impl {

Fd copy_to_file(const std::string& name, AddressRange extent, std::span<const AddressRange> parts) {
  // Before Linux 6.3 there is no such flag, and every memfd is executable.
  int made = ::memfd_create(name.c_str(), MFD_CLOEXEC | abi::memfd_executable);
  if (made < 0 && errno == EINVAL) made = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  Fd file(made);
  if (!file) throw_errno(errno, "cannot copy a module");
  if (const int error = set_file_size(file.get(), extent.size()))
    throw_errno(error, "cannot copy a module");
  void* place = ::mmap(nullptr, extent.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (place == MAP_FAILED) throw_errno(errno, "cannot copy a module");
  for (const AddressRange& part : parts)
    copy_raw(static_cast<std::byte*>(place) + (part.start - extent.start),
             reinterpret_cast<const void*>(part.start), part.size());
  ::munmap(place, extent.size());
  return file;
}

int map_private_copy(AddressRange range, const Fd& file, std::uint64_t offset, bool writable,
                     bool executable) {
  const int protection = PROT_READ | (writable ? PROT_WRITE : 0) | (executable ? PROT_EXEC : 0);
  return ::mmap(reinterpret_cast<void*>(range.start), range.size(), protection,
                MAP_PRIVATE | MAP_FIXED, file.get(), static_cast<off_t>(offset)) == MAP_FAILED
             ? errno
             : 0;
}

int forbid_range(AddressRange range) {
  return ::mmap(reinterpret_cast<void*>(range.start), range.size(), PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED
             ? errno
             : 0;
}

}  // namespace wherry::impl
