#include "os/process/load.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "os/files/fd.h"

namespace wherry::impl {

unsigned runnable_threads() {
  const Fd file(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0) return 0;
  unsigned runnable = 0;
  return std::sscanf(text, "%*s %*s %*s %u/", &runnable) == 1 ? runnable : 0;
}

}  // namespace wherry::impl
