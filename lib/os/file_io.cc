#include "os/file_io.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace wherry::impl {

int read_at(int fd, std::uint64_t offset, std::span<std::byte> into) {
  const ssize_t result = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
  return result < 0 ? -errno : static_cast<int>(result);
}

int write_at(int fd, std::uint64_t offset, std::span<const std::byte> from) {
  const ssize_t result = ::pwrite(fd, from.data(), from.size(), static_cast<off_t>(offset));
  return result < 0 ? -errno : static_cast<int>(result);
}

bool may_write_to(std::uint64_t end) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= end;
}

int populate(std::span<std::byte> pages) {
  return ::madvise(pages.data(), pages.size(), MADV_POPULATE_WRITE) == 0 ? 0 : -errno;
}

}  // namespace wherry::impl
