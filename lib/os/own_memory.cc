#include "os/own_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/page.h"

namespace wherry::impl {

std::ptrdiff_t read_if_readable(std::uintptr_t address, std::span<std::byte> into) {
  // A range that ends in what cannot be read is copied up to there only if the pages are named one by one.
  std::size_t done = 0;
  while (done < into.size()) {
    const std::uintptr_t at = address + done;
    const std::size_t part = std::min<std::size_t>(into.size() - done, page_size - at % page_size);
    const iovec local{into.data() + done, part};
    const iovec remote{reinterpret_cast<void*>(at), part};
    const ssize_t got = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
    if (got < 0 && errno != EFAULT) return -1;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::ptrdiff_t>(done);
}

}  // namespace wherry::impl
