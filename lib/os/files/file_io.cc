#include "os/files/file_io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/page.h"
#include "os/files/fd.h"
#include "os/kernel_abi.h"
#include "os/memory/touch.h"

namespace wherry::impl {
namespace {

// The number of pages in one mincore() call; copies seldom have more.
constexpr std::size_t pages_per_look = 513;

// Copies in sandboxes that forbid process_vm_readv(). A pipe returns EFAULT for bad addresses, too.
int copy_through_pipe(std::span<std::byte> into, std::span<const std::byte> from) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return -errno;
  const Fd out(ends[0]);
  const Fd in(ends[1]);
  std::size_t done = 0;
  while (done < from.size()) {
    const ssize_t sent = ::write(in.get(), from.data() + done, from.size() - done);
    if (sent < 0) return done != 0 ? static_cast<int>(done) : -errno;
    for (ssize_t left = sent; left > 0;) {
      const ssize_t got = ::read(out.get(), into.data() + done, static_cast<std::size_t>(left));
      if (got < 0) return done != 0 ? static_cast<int>(done) : -errno;
      left -= got;
      done += static_cast<std::size_t>(got);
    }
  }
  return static_cast<int>(done);
}

// Whether is_right() accepts mincore()'s result for each page. False if the memory is not mapped.
template <typename IsRight>
bool all_looks(std::span<const std::byte> memory, const IsRight& is_right) {
  std::array<unsigned char, pages_per_look> looks;
  for (std::span<std::byte> pages = pages_around(memory); !pages.empty();) {
    const std::size_t count = std::min(pages.size() / page_size, looks.size());
    if (::mincore(pages.data(), count * page_size, looks.data()) != 0) return false;
    const auto end = looks.begin() + static_cast<std::ptrdiff_t>(count);
    if (!std::all_of(looks.begin(), end, is_right)) return false;
    pages = pages.subspan(count * page_size);
  }
  return true;
}

}  // namespace

int read_at(int fd, std::uint64_t offset, std::span<std::byte> into) {
  const ssize_t result = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
  return result < 0 ? -errno : static_cast<int>(result);
}

int write_at(int fd, std::uint64_t offset, std::span<const std::byte> from) {
  const ssize_t result = ::pwrite(fd, from.data(), from.size(), static_cast<off_t>(offset));
  return result < 0 ? -errno : static_cast<int>(result);
}

int copy_memory(std::span<std::byte> into, std::span<const std::byte> from) {
  const iovec local{into.data(), into.size()};
  const iovec remote{const_cast<std::byte*>(from.data()), from.size()};
  const ssize_t result = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  if (result >= 0) return static_cast<int>(result);
  return errno == EPERM || errno == ENOSYS ? copy_through_pipe(into, from) : -errno;
}

int populate(std::span<std::byte> pages) {
  return -touch_pages(reinterpret_cast<std::uintptr_t>(pages.data()), pages.size(),
                      Touch::to_write);
}

int merge_pages(std::span<std::byte> pages) {
  return ::madvise(pages.data(), pages.size(), abi::collapse) == 0 ? 0 : -errno;
}

std::span<std::byte> pages_around(std::span<const std::byte> memory) {
  const auto start = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t first = round_down(start, page_size);
  return {reinterpret_cast<std::byte*>(first), round_up(start + memory.size(), page_size) - first};
}

bool is_at_hand(std::span<const std::byte> memory) {
  return all_looks(memory, [](unsigned char look) { return (look & 1) != 0; });
}

bool is_absent(std::span<const std::byte> memory) {
  return all_looks(memory, [](unsigned char look) { return (look & 1) == 0; });
}

void fetch(std::span<const std::byte> memory) {
  const std::span<std::byte> pages = pages_around(memory);
  (void)touch_pages(reinterpret_cast<std::uintptr_t>(pages.data()), pages.size(), Touch::to_read);
}

}  // namespace wherry::impl
