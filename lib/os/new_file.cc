#include "os/new_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>

namespace wherry::impl {
namespace {

// Others that want the same name at the same time, or died before they had it.
constexpr int attempts_max = 16;

}  // namespace

int create_in_place_of(const std::string& path, Fd& file) {
  std::string target = path;
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) {
    if (!S_ISREG(found.st_mode)) return S_ISDIR(found.st_mode) ? EISDIR : EINVAL;
    char resolved[PATH_MAX];
    if (::realpath(path.c_str(), resolved) == nullptr) return errno;
    target = resolved;
  }
  std::string fresh;
  for (int attempt = 0; !file; ++attempt) {
    if (attempt == attempts_max) return EEXIST;
    fresh = target + ".new" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    file = Fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file && errno != EEXIST) return errno;
  }
  if (std::rename(fresh.c_str(), target.c_str()) == 0) return 0;
  const int error = errno;
  ::unlink(fresh.c_str());
  file.reset();
  return error;
}

int append_all(const Fd& file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace wherry::impl
