#include "os/memory/folio_split.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "os/files/fd.h"

namespace wherry::impl {

int split_folios(pid_t process, std::uintptr_t start, std::size_t bytes) {
  void* const place = reinterpret_cast<void*>(start);
  if (process == 0) return ::madvise(place, bytes, MADV_COLD) == 0 ? 0 : errno;
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (!pidfd) return errno;
  const iovec range{place, bytes};
  return ::syscall(SYS_process_madvise, pidfd.get(), &range, 1, MADV_COLD, 0) < 0 ? errno : 0;
}

int remove_entries(std::uintptr_t start, std::size_t bytes) {
  return ::madvise(reinterpret_cast<void*>(start), bytes, MADV_DONTNEED) == 0 ? 0 : errno;
}

}  // namespace wherry::impl
