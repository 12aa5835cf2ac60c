#include "support/captured_stderr.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace wherry::test {
namespace {

constexpr std::size_t bytes_max = 65536;

int checked(int result) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), "capture stderr");
  return result;
}

// Stderr is the file while this exists.
class Redirection {
 public:
  explicit Redirection(int file) : before_(checked(::dup(STDERR_FILENO))) {
    std::fflush(stderr);
    ::dup2(file, STDERR_FILENO);
  }
  ~Redirection() {
    std::fflush(stderr);
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;

 private:
  const int before_;
};

}  // namespace

std::string stderr_of(const std::function<void()>& function) {
  const int file = checked(::memfd_create("stderr", MFD_CLOEXEC));
  {
    const Redirection redirection(file);
    function();
  }
  std::string text(bytes_max, '\0');
  const ssize_t bytes = ::pread(file, text.data(), text.size(), 0);
  ::close(file);
  text.resize(static_cast<std::size_t>(bytes < 0 ? 0 : bytes));
  return text;
}

}  // namespace wherry::test
