#include "support/capabilities.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <numa.h>
#include <numaif.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace wherry::test {
namespace {

#ifndef USERFAULTFD_IOC_NEW  // newer than the oldest kernel headers that this must compile with
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif

// Whether the userfaultfd has the features that the library needs (since Linux 5.19).
bool has_features(int userfaultfd) {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
  return userfaultfd >= 0 && ::ioctl(userfaultfd, UFFDIO_API, &api) == 0;
}

// Tries the system call in a child: where it is forbidden, the call may end the process.
bool has_system_call(int flags) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_DUMPABLE, 0);  // no core dump of an expected signal
    ::_exit(has_features(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | flags))) ? 0 : 1);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

bool has_full_userfaultfd() {
  if (has_system_call(0)) return true;
  const int device = ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (device < 0) return false;
  const int made = ::ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC);
  const bool has = has_features(made);
  if (made >= 0) ::close(made);
  ::close(device);
  return has;
}

bool has_user_mode_userfaultfd() {
  constexpr int user_mode_only = 1;
  return has_system_call(user_mode_only);
}

bool shows_frame_numbers() {
  const int pagemap = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap < 0) return false;
  std::uint64_t entry = 0;
  const auto touched = reinterpret_cast<std::uintptr_t>(&entry);
  const auto offset = static_cast<off_t>(touched / 4096 * sizeof entry);
  const bool read = ::pread(pagemap, &entry, sizeof entry, offset) == sizeof entry;
  ::close(pagemap);
  constexpr std::uint64_t frame_mask = (std::uint64_t{1} << 55) - 1;
  return read && (entry & frame_mask) != 0;
}

bool has_memory_policies() {
  constexpr std::size_t bytes = 4096;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  int mode = MPOL_DEFAULT;
  const bool has = ::mbind(memory, bytes, MPOL_LOCAL, nullptr, 0, 0) == 0 &&
                   ::get_mempolicy(&mode, nullptr, 0, memory, MPOL_F_ADDR) == 0 &&
                   mode != MPOL_DEFAULT;
  ::munmap(memory, bytes);
  return has;
}

int nodes_with_memory() {
  if (::numa_available() < 0) return 1;
  int nodes = 0;
  for (int node = 0; node <= ::numa_max_node(); ++node) {
    if (::numa_node_size64(node, nullptr) > 0) ++nodes;
  }
  return nodes;
}

// Whether the environment sets this kind of trap.
bool chooses_trap(std::string_view name) {
  const char* chosen = std::getenv("WHERRY_TRAP");
  return chosen != nullptr && std::string_view{chosen} == name;
}

}  // namespace

bool traps_by_protection() {
  return chooses_trap("mprotect");
}

bool devices_serve_system_calls() {
  return !traps_by_protection() && !why_missing("userfaultfd-full");
}

bool serves_system_calls() {
  return devices_serve_system_calls() && !chooses_trap("sigbus");
}

std::optional<std::string> why_missing(std::string_view need) {
  if (need == "trap") {
    if (chooses_trap("userfaultfd") || chooses_trap("sigbus")) return why_missing("userfaultfd");
    return {};
  }
  if (need == "userfaultfd") {
    if (has_full_userfaultfd() || has_user_mode_userfaultfd()) return {};
    return "Linux refuses userfaultfd or is older than 5.19";
  }
  if (need == "userfaultfd-full") {
    if (has_full_userfaultfd()) return {};
    return "no userfaultfd for faults inside system calls (run as root, or allow /dev/userfaultfd)";
  }
  if (need == "root") {
    if (::geteuid() == 0) return {};
    return "not run as root";
  }
  if (need == "frame-numbers") {
    if (shows_frame_numbers()) return {};
    return "/proc/self/pagemap hides frame numbers (needs CAP_SYS_ADMIN)";
  }
  if (need == "memory-policies") {
    if (has_memory_policies()) return {};
    return "Linux refuses memory policies (mbind)";
  }
  if (constexpr std::string_view prefix = "nodes="; need.starts_with(prefix)) {
    const int wanted = std::atoi(std::string{need.substr(prefix.size())}.c_str());
    const int found = nodes_with_memory();
    if (found >= wanted) return {};
    return std::to_string(found) + " NUMA node(s) with memory, needs " + std::to_string(wanted);
  }
  throw std::invalid_argument("unknown need of a test: " + std::string{need});
}

}  // namespace wherry::test
