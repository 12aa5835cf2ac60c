#include "os/process/machine_names.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <utility>

namespace wherry::impl {

std::string kernel_release() {
  utsname names{};
  return ::uname(&names) == 0 ? names.release : "";
}

bool linux_is_older_than(unsigned major, unsigned minor) {
  utsname names{};
  if (::uname(&names) != 0) return false;
  char* end = names.release;
  const unsigned long has_major = std::strtoul(end, &end, 10);
  if (end == names.release || *end != '.') return false;
  const unsigned long has_minor = std::strtoul(end + 1, nullptr, 10);
  return std::pair(has_major, has_minor) < std::pair<unsigned long, unsigned long>(major, minor);
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

std::size_t linux_page_size() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace wherry::impl
