#include "support/descriptors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <stdexcept>

namespace wherry::test {
namespace {

std::string link_of(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

}  // namespace

std::set<int> open_descriptors() {
  std::set<int> found;
  for (int fd = 0; fd < 1024; ++fd)
    if (::fcntl(fd, F_GETFD) >= 0) found.insert(fd);
  return found;
}

std::string file_of_descriptor(int fd) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(link_of(fd).c_str(), target, sizeof target);
  return length < 0 ? std::string() : std::string(target, static_cast<std::size_t>(length));
}

int reopen(int fd) {
  const int other = ::open(link_of(fd).c_str(), O_RDWR | O_CLOEXEC);
  if (other < 0) fail("open of " + link_of(fd));
  return other;
}

std::uint64_t allocated_bytes(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail("fstat");
  constexpr std::uint64_t bytes_per_stat_block = 512;
  return static_cast<std::uint64_t>(status.st_blocks) * bytes_per_stat_block;
}

}  // namespace wherry::test
