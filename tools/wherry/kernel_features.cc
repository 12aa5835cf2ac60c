#include "kernel_features.h"

#include <dirent.h>
#include <fcntl.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/core.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/page.h"
#include "os/files/fd.h"
#include "os/kernel_abi.h"
#include "os/process/machine_names.h"
#include "os/process/userfaultfd_remedy.h"

namespace wherry::tool {

using namespace impl;

namespace {

// Reads a file of /proc or /sys, up to 4 KiB. Returns an empty string if it cannot be read.
std::string read_small_file(const char* path) {
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  char buffer[4096];
  const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
  return got > 0 ? std::string(buffer, static_cast<std::size_t>(got)) : std::string();
}

std::optional<int> read_setting(const char* path) {
  const std::string text = read_small_file(path);
  return text.empty() ? std::nullopt : std::optional(std::atoi(text.c_str()));
}

std::string allow_io_uring() {
  return "docker run --security-opt seccomp=unconfined (elsewhere: a seccomp filter that allows "
         "io_uring_setup(2), "
         "io_uring_enter(2) and io_uring_register(2))";
}

bool probe_move_pages() {
  int on_stack = 0;
  void* page = &on_stack;
  int status = -1;
  return ::move_pages(0, 1, &page, nullptr, &status, 0) == 0 && status >= 0;
}

bool probe_page_frames() {
  const Fd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!pagemap) return false;
  volatile int touched = 1;
  const auto page =
      reinterpret_cast<std::uintptr_t>(&touched) / static_cast<std::uintptr_t>(::getpagesize());
  std::uint64_t entry = 0;
  constexpr std::uint64_t frame_bits = (std::uint64_t{1} << 55) - 1;
  return ::pread(pagemap.get(), &entry, sizeof entry, static_cast<off_t>(page * sizeof entry)) ==
             sizeof entry &&
         (entry & frame_bits) != 0;
}

std::uint64_t soft_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  return limit.rlim_cur;
}

std::uint64_t count_open_files() {
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  std::uint64_t entries = 0;
  while (::readdir(directory) != nullptr) ++entries;
  ::closedir(directory);
  constexpr std::uint64_t own_entries = 3;  // ".", ".." and the directory itself
  return entries > own_entries ? entries - own_entries : 0;
}

}  // namespace

KernelFeatures probe_features() {
  KernelFeatures features;
  features.kernel_release = kernel_release();
  features.permissions = permissions();
  features.unprivileged_userfaultfd = unprivileged_userfaultfd();
  features.io_uring_disabled = read_setting("/proc/sys/kernel/io_uring_disabled");

  // A raw system call, because glibc 2.36 declares pidfd_open with C++ linkage.
  const Fd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  features.pidfd = static_cast<bool>(self);
  const HugeTmpfsFiles huge = create_on_huge_tmpfs("wherry-probe");
  features.huge_tmpfs = huge.way;
  if (huge.files.empty()) features.huge_tmpfs_refusal = reason_of(huge);
  features.holes = probe_holes(features.permissions.userfaultfd() ? HoleGuard::userfaultfd
                                                                  : HoleGuard::small_mapping);
  features.move_pages = probe_move_pages();
  features.page_frames = probe_page_frames();
  return features;
}

std::vector<Capability> KernelFeatures::capabilities() const {
  std::vector<Capability> rows;
  const auto add = [&](const char* name, bool available, bool required, const char* what_for,
                       std::string how) {
    rows.push_back(
        {name, available, required, what_for, available ? std::string() : std::move(how)});
  };
  add("pages of 4 KiB", linux_page_size() == page_size, true,
      "the library has no code for larger pages", "a kernel that was built with 4 KiB pages");
  const std::optional<impl::UffdAccess> access = permissions.userfaultfd();
  const std::string uffd_remedy = userfaultfd_remedy(permissions, unprivileged_userfaultfd);
  add("userfaultfd", access.has_value(), false,
      "catches page faults of host and devices; without it the library uses mprotect(2)",
      uffd_remedy);
  add("userfaultfd in system calls", serves_system_calls(access), false,
      "read(2) and write(2) on managed memory that is not on the host", uffd_remedy);
  add("userfaultfd poison",
      (permissions.userfaultfd_features & abi::userfaultfd_feature_poison) != 0, false,
      "an access to freed memory raises SIGBUS at once",
      !access ? uffd_remedy : "Linux 6.6 or newer");
  add("pidfd", pidfd, true, "reports at once when a device process ends",
      "Linux 5.3 or newer, and in a container a seccomp profile that allows pidfd_open(2)");
  add("io_uring", static_cast<bool>(permissions[Request::io_uring]), false,
      "prefetches are copied by kernel threads; without it by the library's threads",
      io_uring_remedy(permissions, io_uring_disabled));
  const bool own_tmpfs = huge_tmpfs != HugeTmpfsFiles::Way::none;
  add("huge pages in own tmpfs", own_tmpfs, false,
      "2 MiB pages in pools, and with them prefetches at several times the speed",
      huge_tmpfs_refusal +
          ": permit user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
          "user.max_user_namespaces above 0; in a container its seccomp profile), or run with "
          "CAP_SYS_ADMIN; or for every memfd of the machine: echo always > "
          "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  add("holes beside huge pages", holes.keeps_holes(), false,
      "migrated pages stay absent when the kernel merges the others; without it no huge pages",
      holes_remedy(holes, kernel_release, own_tmpfs));
  add("node of a page", move_pages, false, "reports which node holds a page",
      "a kernel with CONFIG_NUMA, and in a container a seccomp profile that allows move_pages(2)");
  add("page frame numbers", page_frames, false, "lets tests compare frames across processes",
      "run with CAP_SYS_ADMIN");
  return rows;
}

std::string holes_remedy(const impl::HoleProbe& holes, const std::string& kernel_release,
                         bool own_tmpfs) {
  switch (holes.found) {
    case impl::HoleProbe::Found::kept:
      return "";
    case impl::HoleProbe::Found::filled:
      return fmt::format("Linux 6.4 or newer: Linux {} has filled the holes", kernel_release);
    case impl::HoleProbe::Found::not_tried:
      break;
  }
  if (!own_tmpfs) return "what the line above needs";
  if (holes.error == EINVAL)
    return fmt::format("Linux 6.1 or newer: {}, so it is not known whether Linux {} keeps holes",
                       reason_of(holes), kernel_release);
  return fmt::format("{}: it is not known whether this kernel keeps holes{}", reason_of(holes),
                     holes.may_succeed_later() ? "; try again with 4 MiB of free memory" : "");
}

std::string io_uring_remedy(const Permissions& permissions, std::optional<int> disabled) {
  using Verdict = Answer::Verdict;
  const Answer& answer = permissions[Request::io_uring];
  switch (answer.verdict) {
    case Verdict::permitted:
      return {};
    case Verdict::not_tried:
      if (answer.error != 0) return "a higher limit of processes (ulimit -u)";
      break;
    case Verdict::refused:
      if (answer.error == EPERM && disabled.value_or(0) != 0)
        return "as root: sysctl kernel.io_uring_disabled=0";
      if (answer.error == ENOSYS && !disabled)
        return "a kernel with CONFIG_IO_URING; if it has that: " + allow_io_uring();
      if (answer.error == ENOMEM) return "a higher limit of locked memory (ulimit -l)";
      if (answer.error == EMFILE) return "a higher limit of open files (ulimit -n)";
      break;
    case Verdict::too_old:
      return "Linux 5.17 or newer";
    case Verdict::killed:
    case Verdict::unending:
      break;
  }
  return allow_io_uring();
}

Limits read_limits() {
  Limits limits;
  limits.mappings_max = mappings_max();
  limits.mappings = count_mappings(::getpid());
  limits.open_files_max = soft_limit(RLIMIT_NOFILE);
  limits.open_files = count_open_files();
  limits.address_space_max = soft_limit(RLIMIT_AS);
  limits.file_size_max = soft_limit(RLIMIT_FSIZE);
  limits.processes_max = soft_limit(RLIMIT_NPROC);
  return limits;
}

}  // namespace wherry::tool
