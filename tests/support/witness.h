// All pools and page tables at once, by Linux's view, in the library's terms: masks of processors
// (bit 0 is the host, bit 1 + d device d), so that a test can compare them with wherryGetPageState
// in one line. Also Linux's information on processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/kernel_view.h"

namespace wherry::test {

// The number of lines in /proc/self/maps.
std::size_t count_mappings();

// How many mappings of the process cover these bytes.
std::size_t count_mappings(pid_t process, const void* first, std::size_t bytes);

// The value of `key` ("Name", "State", ...) in /proc/PID/status, or nothing if there is no such
// process.
std::optional<std::string> process_status(pid_t process, const std::string& key);
// Whether the process exists and is not a zombie.
bool is_running(pid_t process);
// Waits until the process does not run any more. Returns false after `limit_ms`.
bool ends_within(pid_t process, int limit_ms);

// The processor's bit in the masks of Witness and of wherryGetPageState; -1 is the host.
constexpr std::uint32_t bit_of(int processor) {
  return 1u << (processor + 1);
}

class Witness {
 public:
  // Requires: cuInit has succeeded.
  Witness();

  int processors() const { return static_cast<int>(pools_.size()); }
  // The processors whose pool file has data at the page of `address`.
  std::uint32_t residents(const void* address) const;
  // Which of these pools have a page of zeros there. Linux keeps such pages after a part of a huge
  // page was punched while something held a reference to it (lib/memory/pool.h).
  std::uint32_t leftovers(const void* address, std::uint32_t pools) const;
  // The processors that may read the page without a fault that the library would have to answer:
  // their page table has an entry for it, or, with the protection trap, their mapping allows it.
  std::uint32_t mappers(const void* address) const;
  // The processors that may write the page without such a fault.
  std::uint32_t writers(const void* address) const;
  // The bytes that the pool's file occupies.
  std::uint64_t pool_bytes(int processor) const;
  // The same without pages of zeros, some of which may be leftovers. Reads the whole pool.
  // Requires: each page in use has another content.
  std::uint64_t used_bytes(int processor) const;
  // Whether used_bytes() exceeds the limit, three times in a row. Reads the pool only if
  // pool_bytes() does.
  bool exceeds(int processor, std::uint64_t bytes) const;
  // This process, or the device's process.
  static pid_t process_of(int processor);

 private:
  Permissions access(int processor, const void* address) const;

  std::vector<std::unique_ptr<PoolFile>> pools_;
  const bool traps_by_entry_;  // otherwise by protection
};

}  // namespace wherry::test
