#include <cstddef>

#include "io/unreadable.h"

namespace wherry::io {

int io_pkey_mprotect(void*, std::size_t, int, int) WHERRY_IO_STANDS_FOR("pkey_mprotect");

int io_pkey_mprotect(void* memory, std::size_t bytes, int rights, int key) {
  return call_and_count<"pkey_mprotect", int>(memory, memory, bytes, rights, key);
}

}  // namespace wherry::io
