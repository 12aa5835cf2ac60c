#include "os/memory/mapping_count.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "os/files/fd.h"

namespace wherry::impl {

std::uint64_t mappings_max() {
  const Fd file(::open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC));
  char text[24] = {};
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0) return 0;
  return std::strtoull(text, nullptr, 10);
}

std::uint64_t count_mappings(pid_t process) {
  // Avoids snprintf(), which takes 2 KiB of stack: a SIGSEGV handler may call this function in a
  // thread with the smallest stack.
  char path[32] = "/proc/";
  char* const number_end =
      std::to_chars(path + std::strlen(path), std::end(path), static_cast<int>(process)).ptr;
  std::strcpy(number_end, "/maps");
  const Fd maps(::open(path, O_RDONLY | O_CLOEXEC));
  if (!maps) return 0;
  std::uint64_t lines = 0;
  char buffer[2048];
  for (ssize_t got; (got = ::read(maps.get(), buffer, sizeof buffer)) > 0;)
    lines += static_cast<std::uint64_t>(std::count(buffer, buffer + got, '\n'));
  return lines;
}

}  // namespace wherry::impl
