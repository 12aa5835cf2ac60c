#include "os/files/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "os/files/fd.h"

namespace wherry::impl {

int read_small_file(const std::string& path, std::size_t bytes_max, std::string& text) {
  // O_NONBLOCK: a pipe of this name would wait for a writer.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return errno;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EINVAL;
  std::string read(bytes_max + 1, '\0');
  std::size_t size = 0;
  while (size < read.size()) {
    const ssize_t count = ::read(file.get(), read.data() + size, read.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  if (size > bytes_max) return EFBIG;
  read.resize(size);
  text = std::move(read);
  return 0;
}

}  // namespace wherry::impl
