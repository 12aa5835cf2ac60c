#include <cstddef>

#include "io/unreadable.h"

namespace wherry::io {

void* io_mremap(void*, std::size_t, std::size_t, int, void*) WHERRY_IO_STANDS_FOR("mremap");

void* io_mremap(void* memory, std::size_t old_bytes, std::size_t bytes, int flags, void* place) {
  // The last argument need not be there; the real function looks at it if the flags say so.
  return call_and_count<"mremap", void*>(memory, memory, old_bytes, bytes, flags, place);
}

}  // namespace wherry::io
