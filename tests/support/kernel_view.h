// Linux's view of managed memory. Tests rely on it instead of on the library's own bookkeeping.
//
// Pools are found by their names among this process's descriptors, page-table entries in
// /proc/PID/pagemap, and mappings in /proc/PID/maps. All functions only read, except those whose
// comments say so. They throw std::runtime_error if Linux returns an error.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace wherry::test {

// "wherry-pool-host" for processor 0, "wherry-pool-dev0" for processor 1, and so on.
std::string pool_name(int processor);

// One processor's pool, which may be divided among several files of the same name and size.
class PoolFile {
 public:
  explicit PoolFile(int processor);
  PoolFile(const PoolFile&) = delete;
  PoolFile& operator=(const PoolFile&) = delete;
  ~PoolFile();

  // Whether the pool has a page for this managed address (SEEK_DATA).
  bool holds(const void* address) const;
  // The bytes that the pool's files occupy (st_blocks).
  std::uint64_t allocated_bytes() const;
  // The first byte of the first page that the pool has from this offset on, at most `end`.
  std::uint64_t first_data(std::uint64_t offset, std::uint64_t end) const;
  // The first byte from this offset on that is in no page.
  std::uint64_t first_hole(std::uint64_t offset) const;
  // The NUMA node of the page that the pool holds for this address. Maps the page in this process
  // for a moment, through a mapping of its own. Requires: holds(address), and that the page does
  // not move meanwhile.
  int node_of(const void* address) const;
  // Whether the page that the pool holds for this address has only zeros. Requires: holds(address).
  bool holds_zeros(const void* address) const;
  // The bytes of the pages that have only zeros. Reads the whole pool.
  std::uint64_t bytes_of_zeros() const;
  // Has Linux make one huge page of the block of 2 MiB that begins at this address, as it does in
  // the background. Returns 0 or an errno. Requires: the pool holds all of the block.
  int merge(const void* address) const;
  // How many files of the pool hold pages.
  int files_in_use() const;

 private:
  // The file that holds a page for this address; -1: none.
  int file_with(const void* address) const;

  std::vector<int> files_;
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

// The rights of the mapping that contains the address, or nothing if there is no mapping.
struct Permissions {
  bool read = false;
  bool write = false;
};
Permissions permissions_of(pid_t process, const void* address);

// Whether a userfaultfd gets this process's faults on pages that a file already holds (minor
// faults).
bool userfaultfd_tracks_memory();

// Whether the frame is a part of a huge page; nothing if Linux does not say (it says so to root).
std::optional<bool> is_in_huge_page(std::uint64_t frame);

// How many bytes of pools the process maps by huge page-table entries, in the view (or alias) that
// contains the address.
std::uint64_t huge_entries(pid_t process, const void* address);

// Whether Linux makes one entry for a huge page where small entries were before (since 6.14).
bool merges_entries();

// A place where Linux may fill a hole of a pool with zeros in the background, because a mapping of
// the process permits huge pages and the pool holds only a part of the 2 MiB; nothing if there is
// none. Only a userfaultfd keeps Linux from that.
std::optional<std::string> fillable_hole(pid_t process, int processors);

// The NUMA node of the page that `process` has mapped at the address, or nothing if none is mapped.
std::optional<int> mapped_node(pid_t process, const void* address);

}  // namespace wherry::test
