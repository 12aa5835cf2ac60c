// Replaces the C library's mlockall() for the whole program (os/memory/memory_locks.h).
#include "interposers/attached.h"
#include "interposers/next.h"

namespace {

constinit wherry::interposers::Next<int(int)> next_mlockall("mlockall");

}  // namespace

extern "C" [[gnu::visibility("default")]] int mlockall(int flags) noexcept {
  const auto* const hooks = wherry::interposers::attached();
  return hooks != nullptr ? hooks->lock_all(flags, next_mlockall.find()) : next_mlockall(flags);
}
