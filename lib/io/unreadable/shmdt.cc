#include "io/unreadable.h"

namespace wherry::io {

int io_shmdt(const void*) WHERRY_IO_STANDS_FOR("shmdt");

int io_shmdt(const void* memory) {
  return call_and_count<"shmdt", int>(memory, memory);
}

}  // namespace wherry::io
