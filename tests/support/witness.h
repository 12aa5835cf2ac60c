// All pools and page tables at once, as the kernel sees them, in the library's own vocabulary:
// masks of processors (bit 0 the host, bit 1 + d device d), so that a test compares them with
// wherryPageInfo in one line. And what the kernel says of processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/kernel_view.h"

namespace wherry::test {

// Lines of /proc/self/maps.
std::size_t count_mappings();

// How many mappings of the process these bytes consist of.
std::size_t count_mappings(pid_t process, const void* first, std::size_t bytes);

// The value of `key` ("Name", "State", ...) in /proc/PID/status; nothing when there is no such
// process.
std::optional<std::string> process_status(pid_t process, const std::string& key);
// It exists and is not a zombie.
bool is_running(pid_t process);
// Waits until it does not run any more; false after `limit_ms`.
bool ends_within(pid_t process, int limit_ms);

class Witness {
 public:
  // Requires: cuInit has succeeded.
  Witness();

  int processors() const { return static_cast<int>(pools_.size()); }
  // Processors whose pool file has data at the page of `address`.
  std::uint32_t residents(const void* address) const;
  // Processors that may read the page without a fault that the library would have to answer: their
  // page table has an entry for it, or, where the library traps accesses by protection, their
  // mapping allows it.
  std::uint32_t mappers(const void* address) const;
  // ... that may write it.
  std::uint32_t writers(const void* address) const;
  // Bytes that the pool's file takes.
  std::uint64_t pool_bytes(int processor) const;
  // This process, or the one that runs the device's kernels.
  static pid_t process_of(int processor);

 private:
  Permissions access(int processor, const void* address) const;

  std::vector<std::unique_ptr<PoolFile>> pools_;
  const bool traps_by_entry_;  // else by protection
};

}  // namespace wherry::test
