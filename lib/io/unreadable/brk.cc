#include "io/unreadable.h"

namespace wherry::io {

int io_brk(void*) WHERRY_IO_STANDS_FOR("brk");

int io_brk(void* end) {
  return call_and_count<"brk", int>(end, end);
}

}  // namespace wherry::io
