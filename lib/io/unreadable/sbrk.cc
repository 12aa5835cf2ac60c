#include <cstdint>

#include "io/unreadable.h"

namespace wherry::io {

void* io_sbrk(std::intptr_t) WHERRY_IO_STANDS_FOR("sbrk");

void* io_sbrk(std::intptr_t bytes) {
  return call_and_count<"sbrk", void*>(nullptr, bytes);
}

}  // namespace wherry::io
