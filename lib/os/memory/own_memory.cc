#include "os/memory/own_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/page.h"

namespace wherry::impl {

// Linux reads one element after the other, and stops at the first of which it cannot read all. So
// each element is in one page, and after a stop the next call begins behind the unreadable one.
void read_readable(std::span<MemoryPart> parts) {
  struct Element {
    MemoryPart* part;
    std::size_t bytes;
  };
  std::vector<Element> elements;
  std::vector<iovec> local;
  std::vector<iovec> remote;
  for (MemoryPart& part : parts) {
    part.read = 0;
    for (std::size_t at = 0; at < part.into.size();) {
      const std::uintptr_t from = part.address + at;
      const std::size_t bytes =
          std::min<std::size_t>(part.into.size() - at, page_size - from % page_size);
      elements.push_back({&part, bytes});
      local.push_back({part.into.data() + at, bytes});
      remote.push_back({reinterpret_cast<void*>(from), bytes});
      at += bytes;
    }
  }
  for (std::size_t first = 0; first < elements.size();) {
    const std::size_t count = elements.size() - first;
    ssize_t got = ::process_vm_readv(::getpid(), &local[first], count, &remote[first], count, 0);
    for (; first < elements.size() && got >= static_cast<ssize_t>(elements[first].bytes); ++first) {
      elements[first].part->read += elements[first].bytes;
      got -= static_cast<ssize_t>(elements[first].bytes);
    }
    if (first == elements.size()) break;
    // The rest of this part is behind what cannot be read.
    const MemoryPart* const part = elements[first].part;
    while (first < elements.size() && elements[first].part == part) ++first;
  }
}

}  // namespace wherry::impl
