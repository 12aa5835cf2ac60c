#include "measure/machine.h"

#include <numa.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "measure/timing.h"

namespace wherry::bench {
namespace {

std::string cpu_model() {
  std::ifstream file{"/proc/cpuinfo"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

}  // namespace

MachineFacts machine_facts() {
  utsname names{};
  ::uname(&names);
  const long long pages = ::sysconf(_SC_PHYS_PAGES);
  return {cpu_model(), static_cast<int>(allowed_cpus().size()),
          pages * ::sysconf(_SC_PAGESIZE) >> 20,
          ::numa_available() < 0 ? 1 : ::numa_num_configured_nodes(),
          std::string(names.sysname) + " " + names.release};
}

}  // namespace wherry::bench
