#include "os/files/new_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace wherry::impl {
namespace {

// Collisions with processes that use the same name now, or that died before the rename.
constexpr int attempts_max = 16;

}  // namespace

int create_beside(const std::string& path, NewFile& made) {
  made.target = path;
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) {
    if (!S_ISREG(found.st_mode)) return S_ISDIR(found.st_mode) ? EISDIR : EINVAL;
    char resolved[PATH_MAX];
    if (::realpath(path.c_str(), resolved) == nullptr) return errno;
    made.target = resolved;
  }
  for (int attempt = 0; !made.file; ++attempt) {
    if (attempt == attempts_max) return EEXIST;
    made.name = made.target + ".new" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    made.file = Fd(::open(made.name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!made.file && errno != EEXIST) return errno;
  }
  return 0;
}

int create_in_place_of(const std::string& path, Fd& file) {
  NewFile made;
  if (const int error = create_beside(path, made)) return error;
  if (std::rename(made.name.c_str(), made.target.c_str()) != 0) {
    const int error = errno;
    ::unlink(made.name.c_str());
    return error;
  }
  file = std::move(made.file);
  return 0;
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
