#include <cstddef>

#include "io/unreadable.h"

namespace wherry::io {

int io_munmap(void*, std::size_t) WHERRY_IO_STANDS_FOR("munmap");

int io_munmap(void* memory, std::size_t bytes) {
  return call_and_count<"munmap", int>(memory, memory, bytes);
}

}  // namespace wherry::io
