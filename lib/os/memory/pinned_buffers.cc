#include "os/memory/pinned_buffers.h"

#include <dirent.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "os/process/machine_names.h"

namespace wherry::impl {
namespace {

// The status file says how much memory of the process is pinned; few processes have any. Linux 7.2
// does not count there what a process with CAP_IPC_LOCK registers, 6.18 does. Those between are not
// known.
bool has_pinned_memory() {
  if (!linux_is_older_than(6, 19)) return true;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    unsigned long kilobytes = 0;
    if (std::sscanf(line.c_str(), "VmPin: %lu kB", &kilobytes) == 1) return kilobytes != 0;
  }
  return true;
}

void add_buffers(const char* descriptor, std::vector<AddressRange>& buffers) {
  std::ifstream lines(std::string("/proc/self/fdinfo/") + descriptor);
  bool listed = false;
  for (std::string line; std::getline(lines, line);) {
    unsigned long start = 0;
    unsigned long bytes = 0;
    if (line.starts_with("UserBufs:"))
      listed = true;
    else if (listed && std::sscanf(line.c_str(), " %*u: %lx/%lu", &start, &bytes) == 2)
      buffers.push_back({start, start + bytes});
    else
      listed = listed && line.starts_with(' ');  // "    0: <none>" for a free place of a table
  }
}

}  // namespace

std::vector<AddressRange> pinned_buffers() {
  std::vector<AddressRange> buffers;
  if (!has_pinned_memory()) return buffers;
  struct Close {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  const std::unique_ptr<DIR, Close> directory(::opendir("/proc/self/fd"));
  if (!directory) return buffers;
  while (const dirent* entry = ::readdir(directory.get())) {
    char target[PATH_MAX];
    const ssize_t length =
        ::readlinkat(::dirfd(directory.get()), entry->d_name, target, sizeof target);
    if (length > 0 &&
        std::string_view(target, static_cast<std::size_t>(length)) == "anon_inode:[io_uring]")
      add_buffers(entry->d_name, buffers);
  }
  return buffers;
}

}  // namespace wherry::impl
