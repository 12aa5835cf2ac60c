// A program without knowledge of libwherry_io: it reads its own file into managed memory that a
// device used last, and writes that to a memory file. Prints the result.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "support/session.h"

int main() {
  using namespace wherry::test;
  constexpr std::size_t bytes = 20'000;
  const Session session("capacity=16M");
  const Managed<char> memory{bytes};
  const auto use_on_device = [&] {
    session.run(0, [start = memory.data(), last = memory.data() + bytes - 1] {
      ++*start;
      ++*last;
    });
  };
  use_on_device();
  const int from = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (::read(from, memory.data(), bytes) != bytes) {
    std::perror("read");
    return 1;
  }
  use_on_device();
  const int to = ::memfd_create("copy", MFD_CLOEXEC);
  if (::write(to, memory.data(), bytes) != bytes) {
    std::perror("write");
    return 1;
  }
  std::puts("read and written");
}
