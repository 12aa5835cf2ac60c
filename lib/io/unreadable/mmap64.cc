#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>

#include "io/unreadable.h"

namespace wherry::io {

void* io_mmap64(void*, std::size_t, int, int, int, off64_t) WHERRY_IO_STANDS_FOR("mmap64");

void* io_mmap64(void* place, std::size_t bytes, int rights, int flags, int fd, off64_t offset) {
  if ((flags & MAP_FIXED) == 0)
    return Real<"mmap64", void*(void*, std::size_t, int, int, int, off64_t)>::get()(
        place, bytes, rights, flags, fd, offset);
  return call_and_count<"mmap64", void*>(place, place, bytes, rights, flags, fd, offset);
}

}  // namespace wherry::io
