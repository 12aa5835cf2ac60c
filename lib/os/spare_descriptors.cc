#include "os/spare_descriptors.h"

#include <sys/resource.h>

#include <atomic>

namespace wherry::impl {
namespace {

// The first number beyond the limit that the application had; 0: it still has it.
std::atomic<int> first_apart = 0;

void raise_limit(int taken) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t former = limit.rlim_cur;
  if (static_cast<rlim_t>(taken) < former / 2 || limit.rlim_max <= former) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) first_apart = static_cast<int>(former);
}

}  // namespace

Fd move_apart(Fd fd) {
  if (first_apart == 0) raise_limit(fd.get());
  const int from = first_apart;
  if (from == 0 || fd.get() >= from) return fd;
  Fd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, from));
  return moved ? std::move(moved) : std::move(fd);
}

}  // namespace wherry::impl
