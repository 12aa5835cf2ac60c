#include "support/memory_group.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

namespace wherry::test {
namespace {

// Version 1 and version 2. A folder without the counters is not usable.
constexpr const char* const roots[] = {"/sys/fs/cgroup/memory/", "/sys/fs/cgroup/"};

}  // namespace

std::unique_ptr<MemoryGroup> MemoryGroup::make() {
  for (const char* const root : roots) {
    const std::string folder = root + std::string{"wherry-test-"} + std::to_string(::getpid());
    if (::mkdir(folder.c_str(), 0755) != 0) continue;
    if (std::ifstream{folder + "/memory.stat"})
      return std::unique_ptr<MemoryGroup>{new MemoryGroup{folder}};
    ::rmdir(folder.c_str());
  }
  return nullptr;
}

MemoryGroup::~MemoryGroup() {
  ::rmdir(folder_.c_str());
}

void MemoryGroup::join() const {
  std::ofstream file{folder_ + "/cgroup.procs"};
  file << ::getpid() << std::flush;
  if (!file) throw std::runtime_error("cannot join " + folder_);
}

std::uint64_t MemoryGroup::file_memory() const {
  std::ifstream file{folder_ + "/memory.stat"};
  std::uint64_t bytes = 0;
  for (std::string name; file >> name >> bytes;)
    if (name == "shmem") return bytes;
  throw std::runtime_error(folder_ + " does not count shmem");
}

bool MemoryGroup::is_used() const {
  std::ifstream file{folder_ + "/cgroup.procs"};
  int process = 0;
  return static_cast<bool>(file >> process);
}

}  // namespace wherry::test
