// What the kernel says about managed memory: the witness that tests believe instead of the
// library's own books.
//
// Pools are found by their names among this process's descriptors, page-table entries in
// /proc/PID/pagemap, mappings in /proc/PID/maps. Everything here only looks, with one exception
// that its comment names. Throws std::runtime_error where the kernel gives no answer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace wherry::test {

// "wherry-pool-host" for processor 0, "wherry-pool-dev0" for processor 1, and so on.
std::string pool_name(int processor);

// One processor's pool file.
class PoolFile {
 public:
  explicit PoolFile(int processor);
  PoolFile(const PoolFile&) = delete;
  PoolFile& operator=(const PoolFile&) = delete;
  ~PoolFile();

  // Whether the pool has a page for this managed address (SEEK_DATA).
  bool holds(const void* address) const;
  // What the pool really takes (st_blocks).
  std::uint64_t allocated_bytes() const;
  // The NUMA node of the page that the pool holds for this address; maps the page in this process
  // for a moment, through a mapping of its own. Requires: holds(address), and that nothing moves
  // the page meanwhile.
  int node_of(const void* address) const;

 private:
  int fd_;
};

// Offset of a managed address in every pool file, from the mapping that contains it in
// /proc/self/maps.
std::uint64_t pool_offset(const void* address);

// One page-table entry of a process.
struct PageEntry {
  bool present = false;
  bool write_protected = false;  // by userfaultfd
  std::uint64_t frame = 0;       // 0 without CAP_SYS_ADMIN
};
PageEntry page_entry(pid_t process, const void* address);

// What the mapping that contains the address lets a process do; nothing where none does.
struct Permissions {
  bool read = false;
  bool write = false;
};
Permissions permissions(pid_t process, const void* address);

// Whether somebody has this process's faults on pages that a file holds (minor faults) reported to
// a userfaultfd.
bool userfaultfd_tracks_memory();

// How many bytes of a pool the process has in its page table as huge pages, in the mapping that
// contains the address.
std::uint64_t huge_entries(pid_t process, const void* address);

// The NUMA node of the page that `process` has mapped at the address; nothing when it has none
// mapped there.
std::optional<int> mapped_node(pid_t process, const void* address);

}  // namespace wherry::test
