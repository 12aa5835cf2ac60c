#include "io/unreadable.h"

namespace wherry::io {

void* io_shmat(int, const void*, int) WHERRY_IO_STANDS_FOR("shmat");

void* io_shmat(int id, const void* place, int flags) {
  return call_and_count<"shmat", void*>(place, id, place, flags);
}

}  // namespace wherry::io
