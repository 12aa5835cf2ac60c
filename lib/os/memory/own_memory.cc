#include "os/memory/own_memory.h"

#include <sys/uio.h>
#include <unistd.h>

namespace wherry::impl {

bool read_if_readable(std::uintptr_t address, std::span<std::byte> into) {
  const iovec local{into.data(), into.size()};
  const iovec remote{reinterpret_cast<void*>(address), into.size()};
  const ssize_t got = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  return got == static_cast<ssize_t>(into.size());
}

}  // namespace wherry::impl
