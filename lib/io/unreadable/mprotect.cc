#include <cstddef>

#include "io/unreadable.h"

namespace wherry::io {

int io_mprotect(void*, std::size_t, int) WHERRY_IO_STANDS_FOR("mprotect");

int io_mprotect(void* memory, std::size_t bytes, int rights) {
  return call_and_count<"mprotect", int>(memory, memory, bytes, rights);
}

}  // namespace wherry::io
