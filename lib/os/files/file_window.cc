#include "os/files/file_window.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/check.h"
#include "os/kernel_abi.h"

namespace wherry::impl {

int FileWindow::show(int fd, std::uint64_t offset, std::size_t bytes, Use use) {
  hide();
  const std::size_t inside = offset & (place_.size() - 1);
  WHERRY_CHECK(inside + bytes <= place_.size(), "{} bytes at {} do not fit the window", bytes,
               offset);
  std::byte* const start = place_.data() + inside;
  // Inaccessible until munlock(), because after mlockall(MCL_FUTURE) Linux would create its pages.
  if (::mmap(start, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
             static_cast<off_t>(offset)) == MAP_FAILED)
    return errno;
  shown_ = {start, bytes};
  // Linux without huge pages returns EINVAL, which is ignored.
  const bool small = use == Use::creating_small_pages;
  const int access = use == Use::reading ? PROT_READ : PROT_READ | PROT_WRITE;
  if (::munlock(start, bytes) != 0 ||
      (small && ::madvise(start, bytes, MADV_NOHUGEPAGE) != 0 && errno != EINVAL) ||
      ::madvise(start, bytes, MADV_DONTFORK) != 0 || ::madvise(start, bytes, MADV_DONTDUMP) != 0 ||
      ::mprotect(start, bytes, access) != 0) {
    const int error = errno;
    hide();
    return error;
  }
  // Linux enters the pages now, a huge page by one entry: a write(2) whose source is not yet
  // entered clears the whole huge page that it is about to fill. A failure, as before Linux 5.14,
  // only makes the copy slower.
  if (use == Use::reading) (void)::madvise(start, bytes, abi::populate_read);
  return 0;
}

void FileWindow::hide() {
  if (shown_.empty()) return;
  // If Linux has no memory for this call, the old part stays mapped. That does harm only if Linux
  // merges pages there in the background, which madvise() forbids.
  if (::mmap(shown_.data(), shown_.size(), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
    (void)::madvise(shown_.data(), shown_.size(), MADV_NOHUGEPAGE);
  shown_ = {};
}

}  // namespace wherry::impl
