#include "measure/plain_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "measure/timing.h"
#include "measure/touches.h"

namespace wherry::bench {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

}  // namespace

PlainMemory::PlainMemory(std::size_t bytes, Pages pages) : bytes_(bytes) {
  map(pages, MAP_PRIVATE | MAP_ANONYMOUS);
}

PlainMemory::PlainMemory(std::size_t bytes, Pages pages, int fd)
    : bytes_(bytes), fd_(fd >= 0 ? fd : ::memfd_create("plain-memory", MFD_CLOEXEC)) {
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail("memfd");
  map(pages, MAP_SHARED);
}

PlainMemory::~PlainMemory() {
  ::munmap(mapping_, bytes_ + huge_page);
  if (fd_ >= 0) ::close(fd_);
}

void PlainMemory::map(Pages pages, int sharing) {
  constexpr int access = PROT_READ | PROT_WRITE;
  mapping_ = ::mmap(nullptr, bytes_ + huge_page, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) fail("mmap of address space");
  const auto start = (reinterpret_cast<std::uintptr_t>(mapping_) + huge_page - 1) / huge_page;
  data_ = reinterpret_cast<std::byte*>(start * huge_page);
  if (::mmap(data_, bytes_, access, sharing | MAP_FIXED, fd_, 0) == MAP_FAILED)
    fail("mmap of plain memory");
  // Errors are ignored, because Linux may have been built without huge pages.
  ::madvise(data_, bytes_, pages == Pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void PlainMemory::fill() {
  const int threads = static_cast<int>(allowed_cpus().size());
  touch_by_threads(data_, bytes_, 4096, threads);
  // Writes the pages that remain because all threads have had equally many.
  for (std::size_t at = bytes_ / 4096 / static_cast<std::size_t>(threads) *
                        static_cast<std::size_t>(threads) * 4096;
       at < bytes_; at += 4096)
    data_[at] = std::byte{1};
}

void PlainMemory::clear() {
  const auto end = static_cast<off_t>(bytes_);
  const int result = fd_ < 0 ? ::madvise(data_, bytes_, MADV_DONTNEED)
                             : ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, end);
  if (result != 0) fail("freeing plain memory");
}

double copy_by_threads(std::byte* to, const std::byte* from, std::size_t bytes, int threads) {
  const std::size_t part = bytes / static_cast<std::size_t>(threads);
  return ns_of_threads(threads, [&](int number) {
    const std::size_t offset = static_cast<std::size_t>(number) * part;
    std::memcpy(to + offset, from + offset, part);
  });
}

}  // namespace wherry::bench
