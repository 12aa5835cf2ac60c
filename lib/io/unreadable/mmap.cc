#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>

#include "io/unreadable.h"

namespace wherry::io {

void* io_mmap(void*, std::size_t, int, int, int, off_t) WHERRY_IO_STANDS_FOR("mmap");

void* io_mmap(void* place, std::size_t bytes, int rights, int flags, int fd, off_t offset) {
  if ((flags & MAP_FIXED) == 0)
    return Real<"mmap", void*(void*, std::size_t, int, int, int, off_t)>::get()(
        place, bytes, rights, flags, fd, offset);
  return call_and_count<"mmap", void*>(place, place, bytes, rights, flags, fd, offset);
}

}  // namespace wherry::io
