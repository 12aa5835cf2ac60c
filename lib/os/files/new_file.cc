#include "os/files/new_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace wherry::impl {
namespace {

// How often a step is tried. A temporary name may be taken by a process that uses it now, or that
// died before the rename; the target may be replaced by another process meanwhile.
constexpr int attempts_max = 16;

int rename_to_target(const NewFile& made) {
  return std::rename(made.name.c_str(), made.target.c_str()) == 0 ? 0 : errno;
}

// Whether `path` names this open file.
bool is_named(const Fd& file, const std::string& path) {
  struct stat open {
  }, named{};
  return ::fstat(file.get(), &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

// Renames the file to its target. Several processes may do so at the same time: each locks the
// file that it replaces, and its own is locked already.
int take_name(const NewFile& made) {
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    if (::renameat2(AT_FDCWD, made.name.c_str(), AT_FDCWD, made.target.c_str(), RENAME_NOREPLACE) ==
        0)
      return 0;
    if (errno == EINVAL) return rename_to_target(made);  // the file system lacks RENAME_NOREPLACE
    if (errno != EEXIST) return errno;
    const Fd previous(::open(made.target.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!previous && errno == ENOENT) continue;
    if (!previous) return rename_to_target(made);  // unreadable, so not one of this user's
    if (::flock(previous.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return EBUSY;
    if (is_named(previous, made.target)) return rename_to_target(made);
  }
  return EBUSY;
}

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
  // Nobody else has the file open. It stays unlocked if the file system has no locks.
  (void)::flock(made.file.get(), LOCK_EX | LOCK_NB);
  if (const int error = take_name(made)) {
    ::unlink(made.name.c_str());
    return error;
  }
  file = std::move(made.file);
  return 0;
}

int append_all(const Fd& file, std::span<const std::byte> bytes, std::uint64_t& appended) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written <= 0) continue;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    appended += static_cast<std::uint64_t>(written);
  }
  return 0;
}

int change_end(const Fd& file, std::uint64_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  if (::ftruncate(file.get(), size + 1) == 0) return 0;
  return bytes != 0 && ::ftruncate(file.get(), size - 1) == 0 ? 0 : errno;
}

}  // namespace wherry::impl
