#include "os/process/fork_mark.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/page.h"
#include "os/files/fd.h"

namespace wherry::impl {

ForkMark::ForkMark() {
  void* page =
      ::mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw_errno(errno, "mmap");
  if (::madvise(page, page_size, MADV_WIPEONFORK) != 0) {
    const int error = errno;
    ::munmap(page, page_size);
    throw_errno(error, "madvise(MADV_WIPEONFORK)");
  }
  word_ = static_cast<volatile int*>(page);
  *word_ = 1;
}

ForkMark::~ForkMark() {
  ::munmap(const_cast<int*>(word_), page_size);
}

}  // namespace wherry::impl
