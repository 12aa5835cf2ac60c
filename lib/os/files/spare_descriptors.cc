#include "os/files/spare_descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>

namespace wherry::impl {
namespace {

constexpr rlim_t more = 1 << 16;

// The first number above the application's former limit; 0: the limit has not been raised.
std::atomic<int> first_apart = 0;

void raise_limit(int taken) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t former = limit.rlim_cur;
  if (static_cast<rlim_t>(taken) < former / 2 || limit.rlim_max <= former) return;
  // The maximum would be too many: some programs close every permitted number one by one.
  limit.rlim_cur = std::min(limit.rlim_max, former + more);
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
