// What Linux offers, and what this process's permissions and resource limits allow, for `wherry
// info`. Each feature is probed by using it. A probe leaves no descriptor, mapping or thread
// behind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/files/hole_probe.h"
#include "os/files/huge_tmpfs.h"
#include "os/memory/mapping_count.h"
#include "os/process/permissions.h"

namespace wherry::tool {

// One line of `wherry info`.
struct Capability {
  std::string name;
  bool available = false;
  bool required = false;  // initialization fails without it
  std::string what_for;
  std::string how_to_enable;  // a command, or what to change; empty if available
};

struct KernelFeatures {
  std::string kernel_release;

  impl::Permissions permissions;
  // The values in /proc/sys; nullopt where this kernel has no such setting.
  std::optional<int> unprivileged_userfaultfd;  // exists if the kernel has userfaultfd
  std::optional<int> io_uring_disabled;  // exists if the kernel is 6.6 or later and has io_uring
  bool pidfd = false;
  // How this process can make a detached tmpfs with huge=always, or why it cannot.
  impl::HugeTmpfsFiles::Way huge_tmpfs = impl::HugeTmpfsFiles::Way::none;
  std::string huge_tmpfs_refusal;
  impl::HoleProbe holes;     // whether the kernel keeps the holes of its files
  bool move_pages = false;   // the kernel reports which node holds a page
  bool page_frames = false;  // /proc/PID/pagemap shows frame numbers

  std::vector<Capability> capabilities() const;
};

KernelFeatures probe_features();

// What to change so that the kernel keeps holes, or why it is not known whether it does. Empty if
// it keeps them. `own_tmpfs`: whether a tmpfs with huge pages can be made.
std::string holes_remedy(const impl::HoleProbe& holes, const std::string& kernel_release,
                         bool own_tmpfs);

// What to change so that io_uring is permitted: a command, or another line of advice. Empty if it
// is permitted. `disabled`: kernel.io_uring_disabled.
std::string io_uring_remedy(const impl::Permissions& permissions, std::optional<int> disabled);

// Limits of this process that concern the library. 0 means that there is no limit, or that the
// kernel does not report it.
struct Limits {
  std::uint64_t mappings_max = 0;  // vm.max_map_count
  std::uint64_t mappings = 0;      // in use by this process
  std::uint64_t mappings_budget() const { return impl::mappings_budget(mappings_max); }
  std::uint64_t open_files_max = 0;
  std::uint64_t open_files = 0;
  std::uint64_t address_space_max = 0;  // bytes, RLIMIT_AS
  std::uint64_t file_size_max = 0;      // bytes, RLIMIT_FSIZE: bounds a pool file
  std::uint64_t processes_max = 0;      // RLIMIT_NPROC
};

Limits read_limits();

}  // namespace wherry::tool
