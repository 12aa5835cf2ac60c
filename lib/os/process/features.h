// What the kernel offers and this process may use, probed once by trying; a plain value that is
// passed on. Each probe cleans up after itself: it leaves no descriptor, mapping or thread behind.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "os/process/permissions.h"
#include "os/process/remedies.h"

namespace wherry::impl {

// One line of `wherry info`.
struct Capability {
  std::string name;
  bool available = false;
  bool required = false;  // initialization fails without it
  std::string what_for;
  std::string how_to_enable;  // a command, or what to change; empty if available
};

struct Features {
  std::string kernel_release;

  Permissions permissions;
  MachineSettings settings;
  bool pidfd = false;
  bool huge_tmpfs = false;   // a detached tmpfs with huge=always can be made
  bool keeps_holes = false;  // and the kernel does not fill the holes of its files
  bool move_pages = false;   // the kernel reports which node holds a page
  bool page_frames = false;  // /proc/PID/pagemap shows frame numbers

  std::vector<Capability> capabilities() const;
};

Features probe_features();

// Limits of this process that concern the library. 0 means that there is no limit, or that the
// kernel does not report it.
struct Limits {
  std::uint64_t mappings_max = 0;  // vm.max_map_count
  std::uint64_t mappings = 0;      // in use by this process
  // How many mappings the process may have before the library declines remote mappings: an eighth
  // of the maximum is left to the program.
  std::uint64_t mappings_budget() const { return mappings_max - mappings_max / 8; }
  std::uint64_t open_files_max = 0;
  std::uint64_t open_files = 0;
  std::uint64_t address_space_max = 0;  // bytes, RLIMIT_AS
  std::uint64_t file_size_max = 0;      // bytes, RLIMIT_FSIZE: bounds a pool file
  std::uint64_t processes_max = 0;      // RLIMIT_NPROC
};

Limits read_limits();

// Returns how many mappings the process has; 0 if the kernel does not report it. May be called in a
// signal handler.
std::uint64_t count_mappings(pid_t process);

}  // namespace wherry::impl
