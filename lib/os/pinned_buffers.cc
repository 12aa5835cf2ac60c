#include "os/pinned_buffers.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace wherry::impl {
namespace {

// A line that says how much memory of the process is pinned: few processes have any.
bool has_pinned_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    unsigned long kilobytes = 0;
    if (std::sscanf(line.c_str(), "VmPin: %lu kB", &kilobytes) == 1) return kilobytes != 0;
  }
  return true;
}

void add_buffers(const std::filesystem::path& info, std::vector<AddressRange>& buffers) {
  std::ifstream lines(info);
  bool listed = false;
  for (std::string line; std::getline(lines, line);) {
    unsigned long start = 0;
    unsigned long bytes = 0;
    if (line.starts_with("UserBufs:"))
      listed = true;
    else if (!listed || std::sscanf(line.c_str(), " %*u: %lx/%lu", &start, &bytes) != 2)
      listed = false;
    else
      buffers.push_back({start, start + bytes});
  }
}

}  // namespace

std::vector<AddressRange> pinned_buffers() {
  std::vector<AddressRange> buffers;
  if (!has_pinned_memory()) return buffers;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry->path(), gone) == "anon_inode:[io_uring]")
      add_buffers("/proc/self/fdinfo" / entry->path().filename(), buffers);
  }
  return buffers;
}

}  // namespace wherry::impl
