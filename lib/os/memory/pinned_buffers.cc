#include "os/memory/pinned_buffers.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "os/process/machine_names.h"

namespace wherry::impl {
namespace {

// VmPin in /proc/self/status is how much memory of the process is pinned; few processes have any.
// Linux 6.18 counts buffers that a process with CAP_IPC_LOCK registers, 7.2 does not. It is unknown
// which version changed that.
bool has_pinned_memory() {
  if (!linux_is_older_than(6, 19)) return true;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    unsigned long kilobytes = 0;
    if (std::sscanf(line.c_str(), "VmPin: %lu kB", &kilobytes) == 1) return kilobytes != 0;
  }
  return true;
}

// Linux lists a ring's buffers only while no thread uses the ring.
constexpr int attempts_max = 100;
constexpr std::chrono::milliseconds pause{1};

// The buffers that are registered with this ring, or nullopt if Linux does not list them now. The
// list is "UserBufs:" and the number of places, and then a line for each place.
std::optional<std::vector<AddressRange>> buffers_of(const char* descriptor) {
  std::ifstream lines(std::string("/proc/self/fdinfo/") + descriptor);
  std::vector<AddressRange> buffers;
  bool shows_ring = false;
  std::size_t places = 0;
  for (std::string line; std::getline(lines, line);) {
    if (places == 0) {
      if (std::sscanf(line.c_str(), "UserBufs: %zu", &places) == 1 || line.starts_with("SqMask:"))
        shows_ring = true;
      continue;
    }
    unsigned long start = 0;
    unsigned long bytes = 0;
    if (std::sscanf(line.c_str(), " %*u: %lx/%lu", &start, &bytes) == 2)
      buffers.push_back({start, start + bytes});
    else if (!line.ends_with("<none>"))
      return std::nullopt;
    if (--places == 0) break;
  }
  return shows_ring && places == 0 ? std::optional(std::move(buffers)) : std::nullopt;
}

bool is_ring(const char* descriptor) {
  char target[PATH_MAX];
  const std::string link = std::string("/proc/self/fd/") + descriptor;
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  return length > 0 &&
         std::string_view(target, static_cast<std::size_t>(length)) == "anon_inode:[io_uring]";
}

// Ends early if another thread closes the descriptor.
std::vector<AddressRange> buffers_when_listed(const char* descriptor) {
  for (int attempt = 0; is_ring(descriptor); ++attempt) {
    if (auto buffers = buffers_of(descriptor)) return *std::move(buffers);
    if (attempt == attempts_max) return {{0, ~std::uintptr_t{0}}};
    std::this_thread::sleep_for(pause);
  }
  return {};
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
  while (const dirent* entry = ::readdir(directory.get()))
    std::ranges::copy(buffers_when_listed(entry->d_name), std::back_inserter(buffers));
  return buffers;
}

}  // namespace wherry::impl
